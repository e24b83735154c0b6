package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// Declare records a node that an operator declares, and returns it as recorded. A discovered machine that has one of
// the node's MACs, and that no operator adopted, becomes this node.
func Declare(tx *registry.Tx, n fleet.Node) (fleet.Node, error) {
	if err := CheckSerial(tx, n); err != nil {
		return n, err
	}
	seen, err := waiting(tx, n)
	if err != nil {
		return n, err
	}
	if len(seen) == 0 {
		return n, tx.CreateNode(n)
	}
	n.Seen, n.UUID, n.SerialSeen = seen[0].Seen, seen[0].UUID, seen[0].SerialSeen
	return n, takeIn(tx, seen[0].Name, n, seen[1:])
}

// Put records what an operator changed of a node. Discovered machines that have one of its MACs now, and that no
// operator adopted, become part of it.
func Put(tx *registry.Tx, was, n fleet.Node) error {
	if was.State == fleet.Discovered && n.State == fleet.Adopted {
		_, found, err := Awaited(tx, was, n.Name)
		if err != nil {
			return err
		}
		if found {
			return errors.Join(tx.MergeNode(was.Name, n.Name), tx.PutNode(n.Name, n))
		}
	}
	if was.Serial != n.Serial {
		if err := CheckSerial(tx, n); err != nil {
			return err
		}
	}
	seen, err := waiting(tx, n)
	if err != nil {
		return err
	}
	seen = slices.DeleteFunc(seen, func(s fleet.Node) bool { return s.Name == was.Name })
	return takeIn(tx, was.Name, n, seen)
}

// waiting returns the discovered machines that have MACs of a node and that no operator adopted.
func waiting(tx *registry.Tx, n fleet.Node) (seen []fleet.Node, err error) {
	for _, m := range n.MACs {
		other, err := tx.NodeByMAC(m)
		if errors.Is(err, registry.ErrNotFound) || err == nil && other.State == fleet.Adopted {
			continue // PutNode or CreateNode then reports whose MAC it is
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(seen, func(s fleet.Node) bool { return s.Name == other.Name }) {
			seen = append(seen, other)
		}
	}
	return seen, nil
}

// takeIn records n in place of the node named was, and merges discovered machines into it.
func takeIn(tx *registry.Tx, was string, n fleet.Node, seen []fleet.Node) error {
	if len(seen) == 0 {
		return tx.PutNode(was, n)
	}
	without := n
	without.MACs = slices.DeleteFunc(slices.Clone(n.MACs), func(m fleet.MAC) bool { // their MACs are not free yet
		return slices.ContainsFunc(seen, func(s fleet.Node) bool { return slices.Contains(s.MACs, m) })
	})
	if err := tx.PutNode(was, without); err != nil {
		return err
	}
	for _, s := range seen {
		if err := tx.MergeNode(s.Name, n.Name); err != nil {
			return err
		}
	}
	return tx.PutNode(n.Name, n)
}

// Awaited returns the named node if it was declared by its serial number and may be the discovered machine. With no
// name it returns the node that was declared with the machine's serial number. found tells whether there is one.
func Awaited(tx *registry.Tx, seen fleet.Node, name string) (n fleet.Node, found bool, err error) {
	if name == "" {
		return Declared(tx, seen.SerialSeen)
	}
	n, err = tx.Node(name)
	bySerial := n.State == fleet.Adopted && n.Serial != "" && n.OnlyLearned()
	if errors.Is(err, registry.ErrNotFound) || err == nil && !bySerial {
		return n, false, nil
	}
	if err == nil && fleet.TellingSerial(seen.SerialSeen) && !sameSerial(seen.SerialSeen, n.Serial) {
		err = api.NewError(
			api.Conflict,
			fmt.Sprintf("node %s was declared with serial number %s, and this machine says %s", name, n.Serial,
				seen.SerialSeen),
			fmt.Sprintf("is that right? pando node set %s --serial '%s', then adopt it", name, seen.SerialSeen),
		)
	}
	return n, err == nil, err
}

// Become returns a declared node with the MACs and other facts of the discovered machine that it turned out to be. The
// caller records it after MergeNode.
func Become(seen, declared fleet.Node) fleet.Node {
	n := declared
	for _, m := range seen.MACs {
		if !slices.Contains(n.MACs, m) {
			n.MACs, n.Learned = append(slices.Clone(n.MACs), m), append(slices.Clone(n.Learned), m)
		}
	}
	n.UUID, n.SerialSeen, n.Seen = seen.UUID, seen.SerialSeen, seen.Seen
	return n
}

// CheckSerial refuses a serial number that another node has: a machine is matched to one node only.
func CheckSerial(tx *registry.Tx, n fleet.Node) error {
	if n.Serial == "" {
		return nil
	}
	unseen := len(n.MACs) == 0
	if unseen && !fleet.TellingSerial(n.Serial) {
		return httpapi.BadRequest(
			fmt.Sprintf("node %s: serial number %q is what firmware says of many machines", n.Name, n.Serial),
			"name its NIC with --mac",
		)
	}
	others, err := tx.NodesBySerial(n.Serial)
	if err != nil {
		return err
	}
	for _, o := range others {
		bySerial := n.OnlyLearned() || o.OnlyLearned() && sameSerial(o.Serial, n.Serial)
		if o.Name == n.Name || o.State != fleet.Adopted || !bySerial {
			continue
		}
		if _, err := tx.Node(o.Name); err != nil {
			return api.NewError(
				api.Conflict,
				fmt.Sprintf("node %s: serial number %s belongs to another node", n.Name, n.Serial),
				"",
			)
		}
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("node %s: serial number %s belongs to node %s", n.Name, n.Serial, o.Name),
			fmt.Sprintf("is it the same machine? then name it: pando node set %s --name %s", o.Name, n.Name),
		)
	}
	return nil
}

// Declared returns the node that is recognized by a serial number: an operator declared the number and no MAC. found
// tells whether there is one.
func Declared(tx *registry.Tx, serial string) (n fleet.Node, found bool, err error) {
	serial = plain(serial)
	if !fleet.TellingSerial(serial) {
		return n, false, nil
	}
	all, err := tx.NodesBySerial(serial)
	if err != nil {
		return n, false, err
	}
	for _, d := range all {
		if d.State != fleet.Adopted || !sameSerial(d.Serial, serial) || !d.OnlyLearned() {
			continue
		}
		if found {
			return n, false, api.NewError(
				api.Conflict,
				fmt.Sprintf("serial number %s was declared for %s and for %s", serial, n.Name, d.Name),
				fmt.Sprintf("tell them apart by MAC: pando node set %s --add-mac MAC", n.Name),
			)
		}
		n, found = d, true
	}
	return n, found, nil
}

// plain returns a serial number on one line, as nodes have it.
func plain(serial string) string { return strings.Join(strings.Fields(serial), " ") }

func sameSerial(a, b string) bool { return strings.EqualFold(plain(a), plain(b)) }
