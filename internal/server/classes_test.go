package server

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// TestClassArguments: a node's first boot gets the arguments of the classes that its boot loader's data match; later
// boots those that its reported hardware matches. They come after the group's arguments and before the node's.
func TestClassArguments(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.update(func(tx *registry.Tx) error {
		g, err := tx.Group(fleet.DefaultGroup)
		g.KernelArgs = []string{"of=group"}
		return errors.Join(
			err,
			tx.PutGroup(g),
			tx.CreateClass(
				fleet.Class{
					Name:       "dell",
					Match:      fleet.Match{Vendor: []string{"dell*"}},
					KernelArgs: []string{"of=dell"},
				},
			),
			tx.CreateClass(
				fleet.Class{
					Name:       "intel",
					Match:      fleet.Match{CPU: []string{"GenuineIntel"}},
					KernelArgs: []string{"of=intel"},
				},
			),
			tx.CreateClass(
				fleet.Class{
					Name:       "arm",
					Match:      fleet.Match{Architecture: []string{"arm64"}},
					KernelArgs: []string{"of=arm"},
				},
			),
		)
	})
	n := s.node(1)
	told := "/boot/script?mac=" + strings.ReplaceAll(
		n.mac.String(),
		":",
		"-",
	) + "&ip=" + n.addr.String() + "&arch=x86_64&manufacturer.hex=" +
		hex.EncodeToString([]byte("Dell Inc."))
	n.exchange("ipxe")
	if _, b := n.get(told); !strings.Contains(string(b), " of=group of=dell ||") {
		t.Errorf("first boot: %s", b)
	}

	cfg := n.load() // its boot loader does not name the vendor now
	req := registrationOf(cfg)
	req.Hardware = fleet.Hardware{Vendor: "Dell Inc.", CPU: "GenuineIntel", CPUs: 4}
	if e := n.post("/v1/node/hello", "", req, new(api.RegisterResponse)); e != nil {
		t.Fatal(e)
	}
	s.update(func(tx *registry.Tx) error {
		node, err := tx.NodeByMAC(n.mac)
		node.KernelArgs = []string{"of=node"}
		return errors.Join(err, tx.PutNode(node.Name, node))
	})
	n.exchange("ipxe")
	if script := n.script(); !strings.Contains(script, " of=group of=dell of=intel of=node ||") {
		t.Errorf("second boot: %s", script)
	}
}
