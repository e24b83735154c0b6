package discovery

import (
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// Declare records a node that an operator declares, and returns it as recorded. A discovered machine with one of its
// MACs that nobody adopted becomes this node.
func Declare(tx *registry.Tx, n fleet.Node) (fleet.Node, error) {
	if err := CheckSerial(tx, n); err != nil {
		return n, err
	}
	var seen *fleet.Node
	for _, m := range n.MACs {
		other, err := tx.NodeByMAC(m)
		if errors.Is(err, registry.ErrNotFound) || err == nil && other.State == fleet.Adopted {
			continue // the registry says to whom it belongs
		}
		if err != nil {
			return n, err
		}
		if seen == nil {
			seen = &other
			continue
		}
		if other.Name != seen.Name {
			if err := tx.DeleteNode(other.Name); err != nil {
				return n, err
			}
		}
	}
	if seen == nil {
		return n, tx.CreateNode(n)
	}
	n.Seen, n.UUID = seen.Seen, seen.UUID
	return n, tx.PutNode(seen.Name, n)
}

// CheckSerial refuses a serial number for a second node: a machine is matched by it once.
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
		if o.Name != n.Name && o.State == fleet.Adopted && (unseen || len(o.MACs) == 0) {
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
	}
	return nil
}

// claim makes an unknown machine, seen as n, the node that was declared with its serial number and has no MAC yet.
// found reports whether there is one. Its boots until now are the node's.
func claim(tx *registry.Tx, n fleet.Node, serial string) (node fleet.Node, found bool, err error) {
	if !fleet.TellingSerial(serial) || n.State != fleet.Discovered {
		return n, false, nil
	}
	declared, err := tx.NodesBySerial(serial)
	if err != nil {
		return n, false, err
	}
	for _, d := range declared {
		if d.State != fleet.Adopted || len(d.MACs) > 0 {
			continue
		}
		if found {
			return n, false, fmt.Errorf("serial number %s was declared for %s and for %s", serial, node.Name, d.Name)
		}
		node, found = d, true
	}
	if !found {
		return n, false, nil
	}
	node.MACs, node.UUID, node.Seen = n.MACs, n.UUID, n.Seen
	if err := tx.DeleteNode(node.Name); err != nil {
		return n, false, err
	}
	return node, true, tx.PutNode(n.Name, node)
}
