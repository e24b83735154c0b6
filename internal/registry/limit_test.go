package registry

import (
	"context"
	"errors"
	"testing"

	"pando/internal/fleet"
)

// TestLimit: a limited caller can neither read nor change other groups, but names used there are still taken.
func TestLimit(t *testing.T) {
	r := openIn(t, t.TempDir())
	must(t, r, func(tx *Tx) error {
		errs := []error{tx.CreateGroup(fleet.Group{Name: "mine"}), tx.CreateGroup(fleet.Group{Name: "other"})}
		for i, g := range []string{"mine", "other"} {
			n := fleet.Node{Name: "pc" + g, MACs: []fleet.MAC{mac(byte(i + 1))}, State: fleet.Adopted, Group: g}
			errs = append(
				errs,
				tx.CreateNode(n),
				tx.CreateBoot(Boot{ID: fleet.BootID("boot-" + g), Node: n.Name, MAC: n.MACs[0], Started: now}),
			)
			_, err := tx.CreateRollout(fleet.Rollout{Group: g, State: fleet.RolloutRunning})
			errs = append(
				errs,
				err,
				tx.PutConfigFile(fleet.ConfigFile{For: fleet.Scope{Kind: fleet.ForGroup, Name: g}, Path: "/etc/x"}),
			)
		}
		return errors.Join(errs...)
	})
	ctx := Within(t.Context(), []string{"mine"})
	err := r.View(ctx, func(tx *Tx) error {
		nodes, err1 := tx.Nodes()
		groups, err2 := tx.Groups()
		boots, err3 := tx.Boots(BootFilter{})
		latest, err4 := tx.LatestBoots()
		rollouts, err5 := tx.Rollouts(RolloutFilter{})
		files, err6 := tx.ConfigFiles()
		if len(nodes) != 1 || len(groups) != 1 || len(boots) != 1 || len(latest) != 1 || len(rollouts) != 1 ||
			len(files) != 1 {
			t.Errorf("%v %v %v %v %v %v", nodes, groups, boots, latest, rollouts, files)
		}
		return errors.Join(err1, err2, err3, err4, err5, err6)
	})
	if err != nil {
		t.Error(err)
	}
	other := fleet.Node{Name: "pcother", MACs: []fleet.MAC{mac(2)}, State: fleet.Adopted, Group: "other"}
	moved, fresh, same := other, other, other
	moved.Group, fresh.Name, fresh.Group, same.Group = "mine", "new", "mine", "mine"
	same.MACs = []fleet.MAC{mac(9)}
	ofOther := fleet.Scope{Kind: fleet.ForGroup, Name: "other"}
	for what, x := range map[string]struct {
		want error
		do   func(*Tx) error
	}{
		"read a node":        {ErrNotFound, func(tx *Tx) error { _, err := tx.Node("pcother"); return err }},
		"read it by its MAC": {ErrNotFound, func(tx *Tx) error { _, err := tx.NodeByMAC(mac(2)); return err }},
		"read a group":       {ErrNotFound, func(tx *Tx) error { _, err := tx.Group("other"); return err }},
		"read a boot":        {ErrNotFound, func(tx *Tx) error { _, err := tx.Boot("boot-other"); return err }},
		"read a rollout":     {ErrNotFound, func(tx *Tx) error { _, err := tx.Rollout("other-1"); return err }},
		"read a file": {ErrNotFound,
			func(tx *Tx) error { _, err := tx.ConfigFile(ofOther, "/etc/x"); return err }},
		"change a node": {ErrNotFound, func(tx *Tx) error { return tx.PutNode("pcother", other) }},
		"take a node":   {ErrNotFound, func(tx *Tx) error { return tx.PutNode("pcother", moved) }},
		"give a node away": {ErrNotFound,
			func(tx *Tx) error { n := other; n.Name = "pcmine"; n.MACs = nil; return tx.PutNode("pcmine", n) }},
		"delete a node": {ErrNotFound, func(tx *Tx) error { return tx.DeleteNode("pcother") }},
		"create one there": {ErrNotFound,
			func(tx *Tx) error { n := other; n.Name, n.MACs = "x", nil; return tx.CreateNode(n) }},
		"take its MAC":   {ErrExists, func(tx *Tx) error { return tx.CreateNode(fresh) }},
		"take its name":  {ErrExists, func(tx *Tx) error { return tx.CreateNode(same) }},
		"change a group": {ErrNotFound, func(tx *Tx) error { return tx.PutGroup(fleet.Group{Name: "other"}) }},
		"delete a group": {ErrNotFound, func(tx *Tx) error { return tx.DeleteGroup("other") }},
		"create a group": {ErrBeyond, func(tx *Tx) error { return tx.CreateGroup(fleet.Group{Name: "third"}) }},
		"begin a rollout": {ErrBeyond,
			func(tx *Tx) error { _, err := tx.CreateRollout(fleet.Rollout{Group: "other"}); return err }},
		"change a rollout": {ErrNotFound,
			func(tx *Tx) error { return tx.PutRollout(fleet.Rollout{ID: "other-1", Group: "other"}, nil) }},
		"delete a rollout": {ErrNotFound, func(tx *Tx) error { return tx.DeleteRollout("other-1") }},
		"write a file": {ErrNotFound,
			func(tx *Tx) error { return tx.PutConfigFile(fleet.ConfigFile{For: ofOther, Path: "/etc/y"}) }},
		"write a file for all": {ErrBeyond, func(tx *Tx) error {
			return tx.PutConfigFile(fleet.ConfigFile{For: fleet.Scope{Kind: fleet.ForAll}, Path: "/etc/y"})
		}},
		"delete a file": {ErrNotFound, func(tx *Tx) error { return tx.DeleteConfigFile(ofOther, "/etc/x") }},
	} {
		if err := r.Update(ctx, x.do); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", what, err, x.want)
		}
	}
	past := []PastBoot{{ID: "a", Group: "mine", Started: now}, {ID: "b", Group: "other", Started: now}}
	if err := r.PutHistory(t.Context(), 1, past...); err != nil {
		t.Fatal(err)
	}
	for n, c := range map[int]context.Context{1: ctx, 2: Whole(ctx)} {
		if got, err := r.History(c, HistoryFilter{}); err != nil || len(got) != n {
			t.Errorf("history: %v %v, want %d", got, err, n)
		}
	}
}
