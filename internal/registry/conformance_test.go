package registry

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// conformance has the tests of a registry. open returns a new, empty one.
func conformance(t *testing.T, open func(t *testing.T) *Registry) {
	for name, test := range map[string]func(*testing.T, *Registry){
		"nodes": testNodes, "node conflicts": testNodeConflicts, "rename": testRename, "discovered": testDiscovered,
		"groups": testGroups, "classes": testClasses, "power": testPower, "state records": testStateRecords,
		"config files": testConfigFiles, "secrets": testSecrets, "hardware": testHardware, "images": testImages,
		"leases": testLeases, "boots": testBoots, "bounded boots": testBoundedBoots,
		"sessions": testSessions, "tokens": testTokens, "policy": testPolicy, "undo": testUndo, "events": testEvents,
		"follow": testFollow, "progress": testProgress, "events of one boot": testEventsPerBoot,
		"rollouts": testRollouts,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 7, time.UTC)

func mac(n byte) fleet.MAC { return fleet.MAC{2, 0, 0, 0, 0, n} }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func aNode(name string, n byte) fleet.Node {
	return fleet.Node{Name: name, State: fleet.Adopted, Group: "default", MACs: []fleet.MAC{mac(n)}, Created: now}
}

// must runs an Update that must succeed.
func must(t *testing.T, r *Registry, fn func(*Tx) error) {
	t.Helper()
	if err := r.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// want runs an Update that must fail for the given reason.
func want(t *testing.T, r *Registry, reason error, fn func(*Tx) error) {
	t.Helper()
	if err := r.Update(t.Context(), fn); !errors.Is(err, reason) {
		t.Errorf("got %v, want %v", err, reason)
	}
}

// read runs a View that must succeed.
func read[T any](t *testing.T, r *Registry, get func(*Tx) (T, error)) T {
	t.Helper()
	var out T
	err := r.View(t.Context(), func(tx *Tx) (err error) {
		out, err = get(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func testNodes(t *testing.T, r *Registry) {
	full := fleet.Node{Name: "pc10", MACs: []fleet.MAC{mac(9), mac(1)}, State: fleet.Adopted, Group: "default",
		Labels: map[string]string{
			"room": "b 12",
			"x":    "",
		}, Address: addr("10.0.0.7"), Version: "lab:stable", Follow: true, KernelArgs: []string{"quiet", "a=b"},
		UUID: "u", Serial: "s", Created: now, Seen: now.Add(time.Hour)}
	must(t, r, func(tx *Tx) error { return errors.Join(tx.CreateNode(full), tx.CreateNode(aNode("pc2", 2))) })
	same(t, read(t, r, func(tx *Tx) (fleet.Node, error) { return tx.Node("pc10") }), full)
	same(t, read(t, r, func(tx *Tx) (fleet.Node, error) { return tx.NodeByMAC(mac(1)) }), full)
	same(t, read(t, r, func(tx *Tx) (fleet.Node, error) { return tx.NodeByAddress(addr("10.0.0.7")) }), full)
	same(t, read(t, r, (*Tx).Nodes), []fleet.Node{aNode("pc2", 2), full})
	same(t, read(t, r, (*Tx).NodeNames), map[string]bool{"pc2": true, "pc10": true})
	same(t, read(t, r, (*Tx).FixedAddresses), map[netip.Addr]bool{addr("10.0.0.7"): true})
	full.Labels, full.KernelArgs, full.MACs, full.Address = nil, nil, []fleet.MAC{mac(1)}, netip.Addr{}
	must(t, r, func(tx *Tx) error { return tx.PutNode("pc10", full) })
	same(t, read(t, r, func(tx *Tx) (fleet.Node, error) { return tx.Node("pc10") }), full)
	want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.NodeByMAC(mac(9)); return err })
	must(t, r, func(tx *Tx) error { return tx.DeleteNode("pc10") })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteNode("pc10") })
	want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.NodeByMAC(mac(1)); return err })
}

func testNodeConflicts(t *testing.T, r *Registry) {
	first := aNode("pc1", 1)
	first.Address = addr("10.0.0.7")
	must(t, r, func(tx *Tx) error { return errors.Join(tx.CreateNode(first), tx.CreateNode(aNode("pc2", 2))) })
	third := aNode("pc3", 3)
	for _, spoil := range []func(*fleet.Node){
		func(n *fleet.Node) { n.Name = "pc1" },
		func(n *fleet.Node) { n.MACs = append(n.MACs, mac(1)) },
		func(n *fleet.Node) { n.Address = addr("10.0.0.7") },
	} {
		n := third
		spoil(&n)
		want(t, r, ErrExists, func(tx *Tx) error { return tx.CreateNode(n) })
		if n.Name == "pc3" {
			want(t, r, ErrExists, func(tx *Tx) error { return tx.PutNode("pc2", n) })
		}
	}
	want(t, r, ErrExists, func(tx *Tx) error {
		return tx.PutNode("pc2", fleet.Node{Name: "pc1", State: fleet.Adopted, Group: "default"})
	})
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.PutNode("pc9", third) })
	third.Group = "none"
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.CreateNode(third) })
	third.Name = "no name"
	if err := r.Update(t.Context(), func(tx *Tx) error { return tx.CreateNode(third) }); err == nil {
		t.Error("a node without a proper name was taken")
	}
}

func testRename(t *testing.T, r *Registry) {
	n := aNode("mac-020000000001", 1)
	must(t, r, func(tx *Tx) error {
		return errors.Join(tx.CreateNode(n), tx.CreateBoot(Boot{ID: "b1", MAC: mac(1), Node: n.Name, Started: now}))
	})
	n.Name = "pc1"
	must(t, r, func(tx *Tx) error { return tx.PutNode("mac-020000000001", n) })
	boots := read(t, r, func(tx *Tx) ([]Boot, error) { return tx.Boots(BootFilter{Node: "pc1"}) })
	if len(boots) != 1 || boots[0].ID != "b1" {
		t.Errorf("boots after the rename: %+v", boots)
	}
	must(t, r, func(tx *Tx) error { return tx.DeleteNode("pc1") })
	if b := read(t, r, func(tx *Tx) (Boot, error) { return tx.Boot("b1") }); b.Node != "" {
		t.Errorf("boot of a deleted node: %+v", b)
	}
}

func testDiscovered(t *testing.T, r *Registry) {
	for i := range byte(3) {
		n := aNode("d"+string('0'+i), i+1)
		n.State, n.Seen = fleet.Discovered, now.Add(-time.Duration(i)*time.Hour)
		must(t, r, func(tx *Tx) error { return tx.CreateNode(n) })
	}
	must(t, r, func(tx *Tx) error {
		count, oldest, err := tx.Discovered()
		if count != 3 || oldest.Name != "d2" {
			t.Errorf("%d, oldest %s", count, oldest.Name)
		}
		return err
	})
}

func testGroups(t *testing.T, r *Registry) {
	lab := fleet.Group{
		Name:       "lab",
		Image:      "lab:v1",
		Follow:     true,
		KernelArgs: []string{"quiet"},
		Settings: fleet.Settings{
			AuthorizedKeys: &[]string{"ssh-ed25519 AAAA b"},
			UnlockRoot:     new(true),
			RebootAfter:    new(time.Minute),
			CacheSize:      new(int64(64e6)),
			Keeping:        fleet.Keeping{StateOn: new("disk"), Persist: &[]string{"/var/log"}},
		},
	}
	must(t, r, func(tx *Tx) error { return tx.CreateGroup(lab) })
	same(t, read(t, r, (*Tx).Groups), []fleet.Group{{Name: "default"}, lab})
	want(t, r, ErrExists, func(tx *Tx) error { return tx.CreateGroup(lab) })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.PutGroup(fleet.Group{Name: "none"}) })
	lab.KernelArgs = nil
	must(t, r, func(tx *Tx) error { return tx.PutGroup(lab) })
	same(t, read(t, r, func(tx *Tx) (fleet.Group, error) { return tx.Group("lab") }), lab)
	n := aNode("pc1", 1)
	n.Group = "lab"
	must(t, r, func(tx *Tx) error { return tx.CreateNode(n) })
	want(t, r, ErrInUse, func(tx *Tx) error { return tx.DeleteGroup("lab") })
	want(t, r, ErrInUse, func(tx *Tx) error { return tx.DeleteGroup("default") })
	must(t, r, func(tx *Tx) error { return errors.Join(tx.DeleteNode("pc1"), tx.DeleteGroup("lab")) })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteGroup("lab") })
}

func testImages(t *testing.T, r *Registry) {
	v1, v2 := fleet.Digest("sha256:"+strings.Repeat("1", 64)), fleet.Digest("sha256:"+strings.Repeat("2", 64))
	tag := fleet.Tag{Image: "lab", Tag: "latest", Version: v1}
	want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.PutTag(tag); return err })
	must(t, r, func(tx *Tx) error {
		return errors.Join(
			tx.AddVersion(ImageVersion{"lab", v1, now}),
			tx.AddVersion(ImageVersion{"lab", v1, now.Add(time.Hour)}),
			tx.AddVersion(ImageVersion{"lab", v2, now.Add(time.Minute)}),
			tx.AddVersion(ImageVersion{"other", v2, now}),
		)
	})
	same(t, read(t, r, func(tx *Tx) ([]ImageVersion, error) { return tx.Versions("lab") }),
		[]ImageVersion{{"lab", v2, now.Add(time.Minute)}, {"lab", v1, now}})
	if all := read(t, r, func(tx *Tx) ([]ImageVersion, error) { return tx.Versions("") }); len(all) != 3 {
		t.Errorf("all versions: %+v", all)
	}
	must(t, r, func(tx *Tx) error {
		was, err := tx.PutTag(tag)
		same(t, was, fleet.Digest(""))
		return err
	})
	tag.Version = v2
	must(t, r, func(tx *Tx) error {
		was, err := tx.PutTag(tag)
		same(t, was, v1)
		return err
	})
	same(t, read(t, r, func(tx *Tx) ([]fleet.Tag, error) { return tx.Tags("lab") }), []fleet.Tag{tag})
	for ref, to := range map[fleet.Ref]fleet.Digest{"lab": v2, "lab:latest": v2, fleet.Ref("lab@" + v1): v1} {
		same(t, read(t, r, func(tx *Tx) (fleet.Digest, error) { return tx.Resolve(ref) }), to)
	}
	// The first digits of a version name it, as long as no other begins so.
	v3 := v2[:len(v2)-1] + "3"
	must(t, r, func(tx *Tx) error { return tx.AddVersion(ImageVersion{"lab", v3, now}) })
	for ref, to := range map[fleet.Ref]fleet.Digest{
		"lab@111111": v1, "lab@sha256:1111111": v1, fleet.Ref("lab@" + v3): v3,
	} {
		same(t, read(t, r, func(tx *Tx) (fleet.Digest, error) { return tx.Resolve(ref) }), to)
	}
	err := r.View(t.Context(), func(tx *Tx) error { _, err := tx.Resolve("lab@222222222222"); return err })
	if err == nil || !strings.Contains(err.Error(), "several versions of image lab begin with 222222222222") {
		t.Errorf("digits that two versions begin with: %v", err)
	}
	must(t, r, func(tx *Tx) error { return tx.DeleteVersion("lab", v3) })
	for _, ref := range []fleet.Ref{"lab:none", "none", "lab@333333", fleet.Ref("other@" + v1)} {
		want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.Resolve(ref); return err })
	}
	want(t, r, ErrInUse, func(tx *Tx) error { return tx.DeleteVersion("lab", v2) })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteVersion("other", v1) })
	must(t, r, func(tx *Tx) error { return errors.Join(tx.DeleteTag("lab", "latest"), tx.DeleteVersion("lab", v2)) })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteTag("lab", "latest") })
}

func testLeases(t *testing.T, r *Registry) {
	nine := fleet.Lease{Addr: addr("10.0.0.9"), MAC: mac(1), Host: "pc1", Expires: now.Add(time.Hour)}
	ten := fleet.Lease{Addr: addr("10.0.0.10"), MAC: mac(1), Expires: now.Add(2 * time.Hour), Bad: true}
	must(t, r, func(tx *Tx) error { return errors.Join(tx.PutLease(ten), tx.PutLease(nine)) })
	same(t, read(t, r, (*Tx).Leases), []fleet.Lease{nine, ten})
	for last, all := range map[string][]fleet.Lease{"10.0.0.8": nil, "10.0.0.9": {nine}, "10.0.0.200": {nine, ten}} {
		same(
			t,
			read(t, r, func(tx *Tx) ([]fleet.Lease, error) { return tx.LeasesIn(addr("10.0.0.1"), addr(last)) }),
			all,
		)
	}
	same(t, read(t, r, func(tx *Tx) (fleet.Lease, error) { return tx.LeaseByMAC(mac(1)) }), nine)
	same(t, read(t, r, func(tx *Tx) (fleet.Lease, error) { return tx.LeaseByAddr(addr("10.0.0.10")) }), ten)
	nine.MAC, nine.Static = mac(2), true
	must(t, r, func(tx *Tx) error { return tx.PutLease(nine) })
	want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.LeaseByMAC(mac(1)); return err })
	must(t, r, func(tx *Tx) error {
		n, err := tx.DeleteExpired(now.Add(24 * time.Hour))
		same(t, n, int64(1))
		return err
	})
	same(t, read(t, r, (*Tx).Leases), []fleet.Lease{nine})
	must(t, r, func(tx *Tx) error {
		return tx.PutLease(fleet.Lease{Addr: addr("10.0.0.11"), MAC: mac(2), Expires: now})
	})
	must(t, r, func(tx *Tx) error { return tx.DeleteLeasesOf(mac(2), addr("10.0.0.11")) })
	same(t, len(read(t, r, (*Tx).Leases)), 1)
	must(t, r, func(tx *Tx) error { return tx.DeleteLease(addr("10.0.0.11")) })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteLease(addr("10.0.0.11")) })
}

func testBoots(t *testing.T, r *Registry) {
	full := Boot{
		ID:        "b1",
		MAC:       mac(1),
		Node:      "pc1",
		Addr:      addr("10.0.0.9"),
		Firmware:  "bios",
		Started:   now,
		Exchanged: now.Add(1),
		Scripted: now.Add(
			2,
		),
		Version:   "sha256:x",
		Image:     "lab",
		Token:     HashSecret("t"),
		TokenMade: now.Add(3),
		TokenUsed: now.Add(4),
		Nonce:     HashSecret("n"),
		Session:   HashSecret("s"),
		Init:      now.Add(5),
		Hardware:  []byte(`{"cpus":4}`),
		Drivers:   []string{"base igb", "*"},
	}
	second := Boot{ID: "b2", MAC: mac(1), Node: "pc1", Started: now.Add(time.Hour)}
	unknown := Boot{ID: "b3", MAC: mac(3), Started: now.Add(time.Minute)}
	must(t, r, func(tx *Tx) error {
		return errors.Join(tx.CreateBoot(full), tx.CreateBoot(second), tx.CreateBoot(unknown))
	})
	want(t, r, ErrExists, func(tx *Tx) error { return tx.CreateBoot(full) })
	same(t, read(t, r, func(tx *Tx) (Boot, error) { return tx.Boot("b1") }), full)
	ids := func(f BootFilter) (out []fleet.BootID) {
		for _, b := range read(t, r, func(tx *Tx) ([]Boot, error) { return tx.Boots(f) }) {
			out = append(out, b.ID)
		}
		return out
	}
	same(t, ids(BootFilter{}), []fleet.BootID{"b2", "b3", "b1"})
	same(t, ids(BootFilter{Limit: 1}), []fleet.BootID{"b2"})
	same(t, ids(BootFilter{Node: "pc1"}), []fleet.BootID{"b2", "b1"})
	same(t, ids(BootFilter{MAC: mac(3)}), []fleet.BootID{"b3"})
	same(t, ids(BootFilter{Since: now.Add(time.Minute)}), []fleet.BootID{"b2", "b3"})
	for _, nodes := range [][]string{nil, {"pc1"}, {"pc2", "pc1", ""}} {
		same(
			t,
			read(t, r, func(tx *Tx) (map[string]Boot, error) { return tx.LatestBoots(nodes...) }),
			map[string]Boot{"pc1": second},
		)
	}
	same(t, read(t, r, func(tx *Tx) (map[string]Boot, error) { return tx.LatestBoots("pc2") }), map[string]Boot{})
	full.Hardware, full.Token, full.Drivers = nil, Hash{}, []string{"base"}
	must(t, r, func(tx *Tx) error { return tx.PutBoot(full) })
	same(t, read(t, r, func(tx *Tx) (Boot, error) { return tx.Boot("b1") }), full)
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.PutBoot(Boot{ID: "none"}) })
}

func testBoundedBoots(t *testing.T, r *Registry) {
	must(t, r, func(tx *Tx) error {
		for i := range BootsUnknown + 10 {
			b := Boot{
				ID:      fleet.BootID(time.Duration(i).String()),
				MAC:     mac(byte(i)),
				Started: now.Add(time.Duration(i)),
			}
			if i < BootsPerMAC+10 {
				if err := tx.CreateBoot(Boot{ID: "n" + b.ID, MAC: mac(1), Node: "pc1",
					Started: b.Started}); err != nil {
					return err
				}
			}
			if err := tx.CreateBoot(b); err != nil {
				return err
			}
		}
		return nil
	})
	boots := read(t, r, func(tx *Tx) ([]Boot, error) { return tx.Boots(BootFilter{}) })
	mine := 0
	for _, b := range boots {
		if b.Node == "pc1" {
			mine++
		}
	}
	if mine > BootsPerMAC || len(boots)-mine > BootsUnknown || mine == 0 {
		t.Errorf("%d boots of one MAC and %d of strangers are kept", mine, len(boots)-mine)
	}
}

func testSessions(t *testing.T, r *Registry) {
	must(t, r, func(tx *Tx) error {
		return errors.Join(tx.CreateBoot(Boot{ID: "old", MAC: mac(1), Started: now, Session: HashSecret("old")}),
			tx.CreateBoot(Boot{ID: "new", MAC: mac(1), Started: now, Session: HashSecret("new")}),
			tx.CreateBoot(Boot{ID: "other", MAC: mac(2), Started: now, Session: HashSecret("other")}),
			tx.EndSessions(mac(1), "new"))
	})
	for secret, id := range map[string]fleet.BootID{"new": "new", "other": "other"} {
		same(t, read(t, r, func(tx *Tx) (Boot, error) { return tx.BootBySession(HashSecret(secret)) }).ID, id)
	}
	for _, secret := range []string{"old", "", "none"} {
		want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.BootBySession(HashSecret(secret)); return err })
	}
}

func testTokens(t *testing.T, r *Registry) {
	k := Token{Name: "ci", Hash: HashSecret("secret"), Created: now, Expires: now.Add(time.Hour)}
	must(t, r, func(tx *Tx) error { return tx.CreateToken(k) })
	want(t, r, ErrExists, func(tx *Tx) error { return tx.CreateToken(k) })
	must(t, r, func(tx *Tx) error { return tx.TouchToken("ci", now.Add(time.Minute)) })
	k.Used = now.Add(time.Minute)
	same(t, read(t, r, func(tx *Tx) (Token, error) { return tx.TokenByHash(HashSecret("secret")) }), k)
	same(t, read(t, r, (*Tx).Tokens), []Token{k})
	for _, secret := range []string{"", "other"} {
		want(t, r, ErrNotFound, func(tx *Tx) error { _, err := tx.TokenByHash(HashSecret(secret)); return err })
	}
	must(t, r, func(tx *Tx) error { return tx.DeleteToken("ci") })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteToken("ci") })
}

func testPolicy(t *testing.T, r *Registry) {
	same(t, read(t, r, (*Tx).Policy), DefaultPolicy())
	p := Policy{Adoption: fleet.Approve, Naming: "pc[001-]"}
	must(t, r, func(tx *Tx) error { return tx.PutPolicy(p) })
	same(t, read(t, r, (*Tx).Policy), p)
	for _, bad := range []Policy{{"", "pc[1-]"}, {fleet.Open, "pc"}} {
		if err := r.Update(t.Context(), func(tx *Tx) error { return tx.PutPolicy(bad) }); err == nil {
			t.Errorf("policy %+v was taken", bad)
		}
	}
}

// testUndo: a failed change leaves nothing behind, and the other changes in the same commit stay.
func testUndo(t *testing.T, r *Registry) {
	boom := errors.New("boom")
	done := make(chan error, 40)
	for i := range byte(40) {
		go func() {
			done <- r.Update(context.Background(), func(tx *Tx) error {
				err := tx.CreateNode(aNode("pc"+string('a'+i/10)+string('0'+i%10), i+1))
				switch {
				case err == nil && i%4 == 1:
					return boom
				case err == nil && i%4 == 2:
					return ErrDryRun
				case err == nil && i%4 == 3:
					panic("in a change")
				}
				return err
			})
		}()
	}
	failed := 0
	for range 40 {
		if err := <-done; err != nil {
			failed++
		}
	}
	if nodes := read(t, r, (*Tx).Nodes); len(nodes) != 10 || failed != 20 {
		t.Errorf("%d nodes, %d failed", len(nodes), failed)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Update(ended, func(*Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func anEvent(boot fleet.BootID, s trace.Stage, k trace.Kind) trace.Event {
	return trace.Event{Time: now, Boot: boot, Node: "pc1", MAC: mac(1), Stage: s, Kind: k}
}

func testEvents(t *testing.T, r *Registry) {
	e := anEvent("b1", trace.Kernel, trace.End)
	e.Offset, e.Attempt, e.Message, e.Hint, e.Bytes, e.Attrs = 1, 2, "m", "h", map[string]int64{
		"k": 3,
	}, map[string]string{
		"a": "b",
	}
	got, err := r.Append(t.Context(), e, anEvent("b2", trace.Init, trace.End), anEvent("", trace.DHCP, trace.Info))
	if err != nil || len(got) != 3 || got[0].Seq+1 != got[1].Seq || r.Last() != got[2].Seq {
		t.Fatalf("appended %+v, %v", got, err)
	}
	e.Seq = got[0].Seq
	for f, n := range map[EventFilter]int{{}: 3, {Boot: "b1"}: 1, {After: e.Seq}: 2, {Limit: 2}: 2, {Boot: "none"}: 0} {
		events, err := r.Events(t.Context(), f)
		if err != nil || len(events) != n {
			t.Errorf("%+v: %d events, %v", f, len(events), err)
		}
		if f.Boot == "b1" {
			same(t, events[0], e)
		}
	}
	again, err := r.Append(t.Context(), e)
	if err != nil || again[0].Seq != 0 || r.Last() != got[2].Seq {
		t.Errorf("a node's report that came twice was recorded twice: %+v, %v", again, err)
	}
	if none, err := r.Append(t.Context()); err != nil || none != nil {
		t.Errorf("nothing appended: %v, %v", none, err)
	}
}

func testFollow(t *testing.T, r *Registry) {
	if _, err := r.Append(t.Context(), anEvent("b1", trace.DHCP, trace.Begin),
		anEvent("b1", trace.DHCP, trace.End)); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	var got []int64
	err := r.Follow(t.Context(), 1, func(e trace.Event) error {
		got = append(got, e.Seq)
		if len(got) == 600 {
			return enough
		}
		if len(got) == 1 {
			go func() { // more than a page, while it follows
				for range 60 {
					var batch []trace.Event
					for range 10 {
						batch = append(batch, anEvent("b2", trace.Init, trace.Info))
					}
					_, _ = r.Append(context.Background(), batch...)
				}
			}()
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	for i, seq := range got {
		if seq != int64(i)+2 {
			t.Fatalf("event %d has number %d", i, seq)
		}
	}
	ended := make(chan error)
	go func() { ended <- r.Follow(context.Background(), r.Last()+10, func(trace.Event) error { return nil }) }()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("follow of a registry that closes: %v", err)
	}
	if err := r.Update(t.Context(), func(*Tx) error { return nil }); err == nil {
		t.Error("update after close")
	}
}

func testProgress(t *testing.T, r *Registry) {
	if err := r.PutStatus(t.Context(), "b1", []byte(`{"reads":1}`), now); err != nil {
		t.Fatal(err)
	}
	for _, e := range []trace.Event{anEvent("b1", trace.Init, trace.End), anEvent("b1", trace.Booted, trace.End)} {
		if _, err := r.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	p, err := r.Progress(t.Context(), "b1", "none")
	if err != nil || len(p) != 1 || p["b1"].State != trace.Up || p["b1"].Stage != trace.Booted ||
		string(p["b1"].Status) != `{"reads":1}` {
		t.Errorf("progress %+v, %v", p, err)
	}
}

func testEventsPerBoot(t *testing.T, r *Registry) {
	batch := make([]trace.Event, EventsPerBoot)
	for i := range batch {
		batch[i] = anEvent("b1", "mark", trace.Info)
	}
	for _, events := range [][]trace.Event{batch, batch[:10], {anEvent("b1", trace.Booted, trace.End)},
		{anEvent("b2", trace.Init, trace.End)}} {
		if _, err := r.Append(t.Context(), events...); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := r.Events(t.Context(), EventFilter{Boot: "b1"})
	const facts = EventsPerBoot * 3 / 4
	if err != nil || len(kept) != facts+2 {
		t.Fatalf("%d events are kept, %v", len(kept), err)
	}
	left := fmt.Sprintf("%d events left out", len(batch)+10-facts)
	if told := kept[facts]; !strings.HasPrefix(told.Message, left) || told.Node != "pc1" || told.Boot != "b1" {
		t.Errorf("the timeline does not say %q: %+v", left, told)
	}
	if end := kept[facts+1]; end.Stage != trace.Booted {
		t.Errorf("a flood of facts left no room for what the boot reached: %+v", end)
	}
	if p, err := r.Progress(t.Context(), "b1"); err != nil || p["b1"].State != trace.Up {
		t.Errorf("what was not kept counts: %+v, %v", p, err)
	}
	if other, err := r.Events(t.Context(), EventFilter{Boot: "b2"}); err != nil || len(other) != 1 {
		t.Errorf("another boot has %d events, %v", len(other), err)
	}
}
