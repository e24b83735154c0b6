package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// runsFor is how long after its last report a machine counts as running: it reports about once a minute.
const runsFor = 90 * time.Second

// Match is the node that a machine belongs to, by its MAC and by what its firmware reports.
type Match struct {
	Node fleet.Node
	Told []string // for the timeline of its boot: what an operator should know
	Hint string   // what an operator can do about it
	// the node that was declared with the serial number of this machine, which waits for an operator; "": none
	Declared string
}

// Match returns the node of a machine that requests a boot and is recorded as n. A declared serial number decides over
// a learned MAC. If the policy is to approve, what a machine reports does not make it a node. The error says what is
// contradictory.
func (d *Machines) Match(ctx context.Context, n fleet.Node, mac fleet.MAC, uuid, serial string) (Match, error) {
	serial = plain(serial)
	m := Match{Node: n}
	another := anotherUUID(n, mac, uuid)
	telling := fleet.TellingSerial(serial)
	learned := slices.Contains(n.Learned, mac)
	if n.State == fleet.Adopted && (!telling || !learned || sameSerial(serial, n.SerialNumber())) {
		if telling && n.Serial != "" && !sameSerial(serial, n.Serial) {
			m.Told = []string{fmt.Sprintf("its firmware says serial number %s; %s was declared for node %s",
				serial, n.Serial, n.Name)}
			m.Hint = fmt.Sprintf("has it another mainboard? pando node set %s --serial '%s'; is it another machine? "+
				"pando node set %[1]s --remove-mac %s", n.Name, serial, mac)
		} else if another != "" {
			m.Told = []string{another}
			m.Hint = fmt.Sprintf("an adapter that is used at several machines? Declare each by its serial number: "+
				"pando node set %s --serial NUMBER", n.Name)
		}
		return m, nil
	}
	if n.State != fleet.Adopted && !d.adoptions.Take(d.now()) {
		return m, ErrTooMany
	}
	err := d.registry.Update(ctx, func(tx *registry.Tx) (err error) {
		m, err = d.match(tx, mac, serial)
		return err
	})
	if err == nil && m.Node.Name != n.Name {
		d.log.Info("machine adopted", "mac", mac, "node", m.Node.Name, "group", m.Node.Group, "serial", serial)
	}
	return m, err
}

// anotherUUID returns a message if a machine with a learned MAC reports another UUID than the node had before. That is
// no proof of another machine: a virtual machine gets a new UUID each time it is created.
func anotherUUID(n fleet.Node, mac fleet.MAC, uuid string) string {
	if !slices.Contains(n.Learned, mac) || !fleet.TellingSerial(uuid) || !fleet.TellingSerial(n.UUID) ||
		strings.EqualFold(uuid, n.UUID) || strings.EqualFold(swapped(uuid), n.UUID) {
		return ""
	}
	return fmt.Sprintf("its firmware says UUID %s; the machine that booted as node %s before said %s", uuid, n.Name,
		n.UUID)
}

// swapped is a UUID with the other byte order in its first three fields: DHCP's option 97 and SMBIOS before 2.6 may
// differ in it (RFC 4578, DSP0134).
func swapped(uuid string) string {
	b := []byte(uuid)
	if len(b) != 36 {
		return uuid
	}
	for _, f := range [][]byte{b[0:8], b[9:13], b[14:18]} {
		for i, j := 0, len(f)-2; i < j; i, j = i+2, j-2 {
			f[i], f[i+1], f[j], f[j+1] = f[j], f[j+1], f[i], f[i+1]
		}
	}
	return string(b)
}

func (d *Machines) match(tx *registry.Tx, mac fleet.MAC, serial string) (m Match, err error) {
	if m.Node, err = tx.NodeByMAC(mac); err != nil {
		return m, err
	}
	policy, err := tx.Policy()
	if err != nil {
		return m, err
	}
	declared, found, err := Declared(tx, serial)
	if err != nil {
		return m, err
	}
	if m.Node.State == fleet.Adopted {
		has := m.Node.SerialNumber()
		other := fleet.TellingSerial(has) && fleet.TellingSerial(serial) && !sameSerial(has, serial)
		if !slices.Contains(m.Node.Learned, mac) || !other && !(found && declared.Name != m.Node.Name) {
			return m, nil
		}
		if policy.Adoption != fleet.Open {
			return m, contradiction(m.Node, mac, serial)
		}
		if m, err = d.part(tx, m, mac, serial); err != nil {
			return m, err
		}
	}
	switch {
	case found && policy.Adoption != fleet.Open:
		m.Declared = declared.Name
		return m, nil
	case found:
		return d.claim(tx, m, declared, mac, serial)
	case policy.Adoption != fleet.Open:
		return m, nil
	}
	if before, ok, err := parted(tx, serial); err != nil || ok {
		if err != nil {
			return m, err
		}
		return d.claim(tx, m, before, mac, serial)
	}
	old := m.Node.Name
	if m.Node.Name, err = nextName(tx, policy.Naming); err != nil {
		return m, err
	}
	m.Node.State, m.Node.Learned = fleet.Adopted, m.Node.MACs
	return m, tx.PutNode(old, m.Node)
}

// contradiction returns the error for a machine whose MAC was learned for a node that has another serial number.
func contradiction(n fleet.Node, mac fleet.MAC, serial string) error {
	return api.NewError(
		api.Conflict,
		fmt.Sprintf("MAC %s was seen at node %s (serial number %s), and now at a machine that says serial number %s",
			mac, n.Name, n.SerialNumber(), serial),
		fmt.Sprintf("an adapter that is used at several machines? pando node set %s --remove-mac %s, then adopt this "+
			"one; another mainboard? pando node set %[1]s --serial '%[3]s'", n.Name, mac, serial),
	)
}

// part removes a learned MAC from its node, and records the machine that has the MAC now as discovered.
func (d *Machines) part(tx *registry.Tx, m Match, mac fleet.MAC, serial string) (Match, error) {
	was := m.Node
	is := func(other fleet.MAC) bool { return other == mac }
	n := was
	n.MACs, n.Learned = slices.DeleteFunc(slices.Clone(n.MACs), is), slices.DeleteFunc(slices.Clone(n.Learned), is)
	if err := tx.PutNode(n.Name, n); err != nil {
		return m, err
	}
	m.Told = []string{fmt.Sprintf("MAC %s was seen at node %s before, which has serial number %s; this machine says %s",
		mac, n.Name, n.SerialNumber(), serial)}
	m.Hint = "nothing is to be done where an adapter is used at several machines"
	var err error
	m.Node, err = d.record(tx, mac, "")
	return m, err
}

// parted returns the node that a machine with this serial number had been, before another machine used its adapter.
func parted(tx *registry.Tx, serial string) (n fleet.Node, found bool, err error) {
	if !fleet.TellingSerial(serial) {
		return n, false, nil
	}
	all, err := tx.NodesBySerial(serial)
	i := slices.IndexFunc(all, func(n fleet.Node) bool {
		return n.State == fleet.Adopted && n.Serial == "" && len(n.MACs) == 0 && sameSerial(n.SerialSeen, serial)
	})
	if err != nil || i < 0 {
		return n, false, err
	}
	return all[i], true, nil
}

// claim makes a discovered machine the node that was declared with its serial number.
func (d *Machines) claim(tx *registry.Tx, m Match, declared fleet.Node, mac fleet.MAC, serial string) (Match, error) {
	for _, other := range declared.MACs {
		if other != mac && d.mayRun(other, d.now(), runsFor) {
			return m, api.NewError(
				api.Conflict,
				fmt.Sprintf("node %s, declared with serial number %s, runs with MAC %s: two machines say that number",
					declared.Name, serial, other),
				fmt.Sprintf("is it the same machine, it boots when that one is silent for %s; else name the MAC of "+
					"each: pando node create NAME --mac %s", runsFor, mac),
			)
		}
	}
	n := Become(m.Node, declared)
	n.Claimed = append(slices.Clone(n.Claimed), mac)
	if err := errors.Join(tx.MergeNode(m.Node.Name, n.Name), tx.PutNode(n.Name, n)); err != nil {
		return m, err
	}
	m.Node = n
	m.Told = append(m.Told, fmt.Sprintf("it is node %s, by its serial number %s", n.Name, serial))
	m.Hint = "secrets wait until an operator says that it is: pando node approve " + n.Name
	body, err := json.Marshal(map[string]string{"mac": mac.String(), "serial": serial})
	if err != nil {
		return m, err
	}
	return m, tx.AppendAudited(registry.Audited{At: d.now(), Who: "a machine that booted", Method: "MATCH",
		Path: "/v1/nodes/" + n.Name, Body: string(body), Status: 200})
}
