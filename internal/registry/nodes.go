package registry

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"pando/internal/fleet"
)

const (
	nodeFields = `SELECT name, state, grp, labels, address, version, kernel_args, uuid, serial, created, seen, overrides,
		tpm_key, serial_seen, `
	nodeColumns = nodeFields + `(SELECT group_concat(` + markedMAC + `, ' ')
		FROM (SELECT mac, learned FROM macs WHERE node = nodes.name ORDER BY place)) FROM nodes`
	// Column learned: 0 is declared, 1 learned, 2 learned from a machine that reported the node's serial number. A mark
	// follows the MAC.
	learnedMark, claimedMark = "+", "!"
	markedMAC                = `mac || CASE learned WHEN 0 THEN '' WHEN 1 THEN '` + learnedMark + `' ELSE '` + claimedMark + `' END`
)

// Nodes returns all nodes, discovered ones too, in natural order of their names.
func (t *Tx) Nodes() ([]fleet.Node, error) {
	clause, arg := t.limit("grp")
	nodes, err := list(t, scanNode, nodeFields+`NULL FROM nodes WHERE true`+clause, arg)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	macs, err := t.macs() // one query for all nodes is faster than one for each of 10,000
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes {
		if err := addMACs(&nodes[i], macs[nodes[i].Name]); err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
	}
	slices.SortFunc(nodes, func(a, b fleet.Node) int { return fleet.CompareNames(a.Name, b.Name) })
	return nodes, nil
}

// macs returns the MACs of all nodes by name, in the format of nodeColumns.
func (t *Tx) macs() (map[string][]string, error) {
	rows, err := t.tx.QueryContext(t.ctx, `SELECT node, `+markedMAC+` FROM macs
		ORDER BY node, place`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[string][]string)
	for rows.Next() {
		var node, text string
		if err := rows.Scan(&node, &text); err != nil {
			return nil, err
		}
		out[node] = append(out[node], text)
	}
	return out, rows.Err()
}

// NodeNames returns the names of all nodes, even those that the caller may not see: a name can be used only once.
func (t *Tx) NodeNames() (map[string]bool, error) {
	names, err := list(t, func(s scanner) (name string, err error) {
		err = s.Scan(&name)
		return name, err
	}, `SELECT name FROM nodes`)
	if err != nil {
		return nil, fmt.Errorf("list names of nodes: %w", err)
	}
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out, nil
}

// Node returns one node, or ErrNotFound.
func (t *Tx) Node(name string) (fleet.Node, error) {
	return t.seen(t.anyNode(name))
}

// anyNode is Node without the limit to some groups: a name can be used only once.
func (t *Tx) anyNode(name string) (fleet.Node, error) {
	return one(t.row(nodeColumns+` WHERE name = ?`, name), scanNode, "node", name)
}

// NodeByMAC returns the node with this MAC, or ErrNotFound.
func (t *Tx) NodeByMAC(m fleet.MAC) (fleet.Node, error) {
	return t.seen(t.anyByMAC(m))
}

func (t *Tx) anyByMAC(m fleet.MAC) (fleet.Node, error) {
	return one(t.row(nodeColumns+` WHERE name = (SELECT node FROM macs WHERE mac = ?)`, m.String()),
		scanNode, "node with MAC", m.String())
}

// NodeByAddress returns the node with this fixed address, or ErrNotFound.
func (t *Tx) NodeByAddress(a netip.Addr) (fleet.Node, error) {
	return one(t.row(nodeColumns+` WHERE address = ?`, a.String()), scanNode, "node with address", a.String())
}

// NodesBySerial returns the nodes for which this serial number was declared, or whose firmware reported it; normally
// one. It ignores case.
func (t *Tx) NodesBySerial(serial string) ([]fleet.Node, error) {
	if serial == "" {
		return nil, nil
	}
	n, err := list(t, scanNode, nodeColumns+` WHERE serial = ?1 COLLATE NOCASE OR serial_seen = ?1 COLLATE NOCASE
		ORDER BY name`, serial)
	if err != nil {
		return nil, fmt.Errorf("list nodes with serial number %s: %w", serial, err)
	}
	return n, nil
}

// FixedAddresses returns the fixed addresses of all nodes.
func (t *Tx) FixedAddresses() (map[netip.Addr]bool, error) {
	all, err := list(t, func(s scanner) (netip.Addr, error) {
		var a string
		if err := s.Scan(&a); err != nil {
			return netip.Addr{}, err
		}
		return parseAddr(a)
	}, `SELECT address FROM nodes WHERE address != ''`)
	if err != nil {
		return nil, fmt.Errorf("list fixed addresses: %w", err)
	}
	out := make(map[netip.Addr]bool, len(all))
	for _, a := range all {
		out[a] = true
	}
	return out, nil
}

// Discovered returns the number of nodes that are discovered but not adopted, and the one that was last seen longest
// ago.
func (t *Tx) Discovered() (count int, oldest fleet.Node, err error) {
	if err := t.row(`SELECT count(*) FROM nodes WHERE state = ?`, string(fleet.Discovered)).Scan(&count); err != nil {
		return 0, oldest, fmt.Errorf("count discovered nodes: %w", err)
	}
	if count == 0 {
		return 0, oldest, nil
	}
	oldest, err = one(
		t.row(nodeColumns+` WHERE state = ? ORDER BY seen LIMIT 1`, string(fleet.Discovered)), scanNode, "node",
		"discovered first",
	)
	return count, oldest, err
}

// CreateNode adds a node. It returns ErrExists if the name, a MAC or the fixed address is taken, and ErrNotFound if the
// group does not exist.
func (t *Tx) CreateNode(n fleet.Node) error {
	if err := t.checkNode("", n); err != nil {
		return err
	}
	_, err := t.exec(
		`INSERT INTO nodes (name, state, grp, labels, address, version, kernel_args, uuid, serial, created, seen, overrides,
		tpm_key, serial_seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		nodeValues(n)...)
	if err != nil {
		return fmt.Errorf("create node %s: %w", n.Name, err)
	}
	return t.putMACs(n)
}

// PutNode replaces the node with the given name by n. If n.Name differs, the node is renamed and keeps its boots. It
// returns the errors of CreateNode, or ErrNotFound.
func (t *Tx) PutNode(name string, n fleet.Node) error {
	was, err := t.Node(name)
	if err != nil || t.change != nil && onlySeen(was, n) { // such a change is not worth memory
		return err
	}
	if err := t.checkNode(name, n); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM macs WHERE node = ?`, name); err != nil {
		return fmt.Errorf("change node %s: %w", name, err)
	}
	_, err = t.exec(
		`UPDATE nodes SET name = ?, state = ?, grp = ?, labels = ?, address = ?, version = ?, kernel_args = ?,
		uuid = ?, serial = ?, created = ?, seen = ?, overrides = ?, tpm_key = ?, serial_seen = ? WHERE name = ?`,
		append(nodeValues(n), name)...)
	if err != nil {
		return fmt.Errorf("change node %s: %w", name, err)
	}
	if n.Name != name {
		if _, err := t.exec(`UPDATE boots SET node = ? WHERE node = ?`, n.Name, name); err != nil {
			return fmt.Errorf("rename node %s: %w", name, err)
		}
		if err := t.moveScope(name, n.Name); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE OR REPLACE rollout_nodes SET node = ? WHERE node = ?`, n.Name, name); err != nil {
			return fmt.Errorf("rename node %s: %w", name, err)
		}
		if err := errors.Join(t.renamePower(name, n.Name), t.renameState(name, n.Name)); err != nil {
			return err
		}
	}
	return t.putMACs(n)
}

// MergeNode merges the discovered node seen into another node, which gets its boots. It also gets what was declared
// for seen, unless it has its own. The MACs of seen become free.
func (t *Tx) MergeNode(seen, into string) error {
	if _, err := t.exec(`UPDATE boots SET node = ? WHERE node = ?`, into, seen); err != nil {
		return fmt.Errorf("merge node %s into %s: %w", seen, into, err)
	}
	if err := errors.Join(t.mergeScope(seen, into), t.mergePower(seen, into)); err != nil {
		return err
	}
	return t.DeleteNode(seen)
}

// DeleteNode deletes a node, or returns ErrNotFound. Its boots stay in the history of its MAC.
func (t *Tx) DeleteNode(name string) error {
	if _, err := t.Node(name); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM macs WHERE node = ?`, name); err != nil {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	if _, err := t.exec(`UPDATE boots SET node = '' WHERE node = ?`, name); err != nil {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	if err := t.forgetPower(PowerOfNode, name); err != nil {
		return err
	}
	n, err := t.exec(`DELETE FROM nodes WHERE name = ?`, name)
	if err != nil {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	if n == 0 {
		return notFound("node", name)
	}
	return t.endScope(fleet.ForNode, name)
}

// checkNode returns what keeps n from replacing the node named old; old "" means that n is new.
func (t *Tx) checkNode(old string, n fleet.Node) error {
	if err := errors.Join(n.Validate(), named("node "+n.Name, n.Version, n.Follow)); err != nil {
		return err
	}
	if _, err := t.Group(n.Group); err != nil {
		return err
	}
	if n.Name != old {
		if _, err := t.anyNode(n.Name); !errors.Is(err, ErrNotFound) {
			return taken(err, "node", n.Name)
		}
	}
	for _, m := range n.MACs {
		other, err := t.anyByMAC(m)
		if err == nil && other.Name != old {
			return fmt.Errorf("node %s: MAC %s belongs to %s: %w", n.Name, m, t.called(other), ErrExists)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if !n.Address.IsValid() {
		return nil
	}
	other, err := t.NodeByAddress(n.Address)
	if err == nil && other.Name != old {
		return fmt.Errorf("node %s: address %s belongs to %s: %w", n.Name, n.Address, t.called(other), ErrExists)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// taken returns ErrExists if err is nil, because a look-up that should find nothing found something; otherwise err.
func taken(err error, kind, name string) error {
	if err != nil {
		return err
	}
	return exists(kind, name)
}

func (t *Tx) putMACs(n fleet.Node) error {
	for i, m := range n.MACs {
		learned := 0
		if slices.Contains(n.Learned, m) {
			if learned = 1; slices.Contains(n.Claimed, m) {
				learned = 2
			}
		}
		if _, err := t.exec(`INSERT INTO macs (mac, node, place, learned) VALUES (?, ?, ?, ?)`, m.String(), n.Name, i,
			learned); err != nil {
			return fmt.Errorf("node %s: record MAC %s: %w", n.Name, m, err)
		}
	}
	return nil
}

func nodeValues(n fleet.Node) []any {
	return []any{
		n.Name,
		string(n.State),
		n.Group,
		pack(n.Labels, len(n.Labels) == 0),
		addrText(n.Address),
		string(n.Version),
		pack(n.KernelArgs, len(n.KernelArgs) == 0),
		n.UUID,
		n.Serial,
		stamp(n.Created),
		stamp(n.Seen),
		pack(n.Settings, n.Settings == (fleet.Settings{})),
		n.TPMKey,
		n.SerialSeen,
	}
}
