package registry

import (
	"errors"
	"testing"
	"time"

	"pando/internal/fleet"
)

// testStateRecords: a node keeps its state directory through renames, and no other node gets that of a deleted node.
func testStateRecords(t *testing.T, r *Registry) {
	at := time.Date(2026, 11, 22, 7, 45, 0, 0, time.UTC)
	dir := func(node, want string) {
		t.Helper()
		must(t, r, func(tx *Tx) error {
			got, err := tx.GiveStateDir(node)
			if got.Dir != want || got.Node != node {
				t.Errorf("%s is in %q, want %q", got.Node, got.Dir, want)
			}
			return err
		})
	}
	must(t, r, func(tx *Tx) error { return tx.CreateNode(aNode("pc001", 1)) })
	dir("pc001", "pc001")
	must(t, r, func(tx *Tx) error {
		n, err := tx.Node("pc001")
		n.Name = "pc002"
		return errors.Join(err, tx.PutNode("pc001", n))
	})
	dir("pc002", "pc001")
	dir("pc001", "pc001+2")
	must(t, r, func(tx *Tx) error {
		x, err := tx.StateRecord("pc002")
		x.Places, x.Orders = []fleet.StatePlace{
			{Place: "disk", On: "disk", Told: at},
		}, []fleet.StateOrder{
			{ID: "a", Kind: fleet.ResetState, Place: "disk", Asked: at},
		}
		return errors.Join(err, tx.PutStateRecord(x), tx.RetireState("pc002", at), tx.RetireState("none", at))
	})
	gone := read(t, r, (*Tx).DeletedStates)
	same(
		t,
		gone,
		[]fleet.StateRecord{
			{
				Node:    DeletedName("pc002", at),
				Dir:     "pc001",
				Deleted: at,
				Places:  []fleet.StatePlace{{Place: "disk", On: "disk", Told: at}},
			},
		},
	)
	dir("pc002", "pc002")
	must(t, r, func(tx *Tx) error { return errors.Join(tx.ForgetState(gone[0].Node), tx.ForgetState("pc001")) })
	dir("pc001", "pc001")
	same(t, len(read(t, r, (*Tx).StateRecords)), 2)
	ctx := Within(t.Context(), []string{"mine"})
	if err := r.View(ctx, func(tx *Tx) error {
		all, err := tx.StateRecords()
		same(t, len(all), 0)
		return err
	}); err != nil {
		t.Error(err)
	}
}
