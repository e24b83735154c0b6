package registry

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pando/internal/fleet"
)

func testClasses(t *testing.T, r *Registry) {
	c := fleet.Class{
		Name:       "kiosk",
		Match:      fleet.Match{Vendor: []string{"Dell*"}, PCI: []string{"10de:*:03*"}},
		KernelArgs: []string{"nomodeset"},
	}
	must(t, r, func(tx *Tx) error { return tx.CreateClass(c) })
	want(t, r, ErrExists, func(tx *Tx) error { return tx.CreateClass(c) })
	c.KernelArgs = nil
	must(t, r, func(tx *Tx) error { return tx.PutClass(c) })
	same(t, read(t, r, (*Tx).Classes), []fleet.Class{c})
	same(t, read(t, r, func(tx *Tx) (fleet.Class, error) { return tx.Class("kiosk") }), c)
	if err := r.Update(t.Context(),
		func(tx *Tx) error { return tx.CreateClass(fleet.Class{Name: "any"}) }); err == nil {
		t.Error("a class of all hardware was taken")
	}
	must(t, r, func(tx *Tx) error { return tx.DeleteClass("kiosk") })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteClass("kiosk") })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.PutClass(c) })
}

// testHardware: the report of the latest boot counts, from any MAC of the node.
func testHardware(t *testing.T, r *Registry) {
	must(t, r, func(tx *Tx) error {
		errs := []error{tx.CreateNode(aNode("pc1", 1)), tx.CreateNode(aNode("pc2", 2))}
		for i, h := range []string{`{"product":"old"}`, `{"product":"new"}`, ""} {
			errs = append(
				errs,
				tx.CreateBoot(Boot{ID: fleet.BootID("b" + string(rune('1'+i))), MAC: mac(byte(10 + i)), Node: "pc1",
					Started: now.Add(time.Duration(i) * time.Hour), Hardware: json.RawMessage(h)}),
			)
		}
		return errors.Join(errs...)
	})
	same(t, read(t, r, hardwareOf()), map[string]fleet.Hardware{"pc1": {Product: "new"}})
	same(t, read(t, r, hardwareOf("pc1")), map[string]fleet.Hardware{"pc1": {Product: "new"}})
	same(t, read(t, r, hardwareOf("pc2")), map[string]fleet.Hardware{})
	same(t, read(t, r, hardwareOf("")), map[string]fleet.Hardware{}) // an unnamed MAC belongs to no node
	same(t, read(t, r, hardwareOf("pc2", "pc1")), map[string]fleet.Hardware{"pc1": {Product: "new"}})
}

func hardwareOf(nodes ...string) func(*Tx) (map[string]fleet.Hardware, error) {
	return func(tx *Tx) (map[string]fleet.Hardware, error) { return tx.Hardware(nodes...) }
}
