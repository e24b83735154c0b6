package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
)

func steps(a api.Applied) (out []string) {
	for _, s := range a.Steps {
		out = append(
			out,
			strings.TrimSpace(
				strings.Join([]string{string(s.Action), s.Kind, s.Name, strings.Join(s.Fields, "; ")}, " "),
			),
		)
	}
	return out
}

func declare(name string, last byte, change ...func(*api.NodeDeclare)) api.NodeDeclare {
	d := api.NodeDeclare{NodeCreate: api.NodeCreate{Name: name, MACs: []fleet.MAC{{2, 0, 0, 0, 0, last}}}}
	for _, c := range change {
		c(&d)
	}
	return d
}

func apply(t *testing.T, c *api.Client, a api.Apply) api.Applied {
	t.Helper()
	out, err := c.ApplyFleet(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestApply(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	d := api.Declaration{
		Policy:  &api.Policy{Adoption: fleet.Approve},
		Classes: []fleet.Class{{Name: "nvidia", Match: fleet.Match{PCI: []string{"10de"}}, KernelArgs: []string{"a"}}},
		Groups:  []fleet.Group{{Name: "lab", Settings: fleet.Settings{Peers: new(fleet.PeersRack)}}},
		Nodes: []api.NodeDeclare{
			declare(
				"pc01",
				1,
				func(d *api.NodeDeclare) { d.Group, d.Address, d.Peers = "lab", "10.0.0.1", ptr(fleet.PeersOff) },
			),
			declare("pc02", 2, func(d *api.NodeDeclare) { d.Address = "10.0.0.2" }),
			{NodeCreate: api.NodeCreate{Name: "pc03", Serial: "S-3"}},
		},
	}
	tried := apply(t, c, api.Apply{Declaration: d, DryRun: true})
	want := []string{
		"change policy  adoption: open -> approve",
		"create class nvidia PCI: none -> 10de; kernel args: none -> a",
		"create group lab peers: on -> rack",
		"create node pc01 group: none -> lab; address: none -> 10.0.0.1; MACs: none -> 02:00:00:00:00:01; peers: " +
			"the group's -> off",
		"create node pc02 group: none -> default; address: none -> 10.0.0.2; MACs: none -> 02:00:00:00:00:02",
		"create node pc03 group: none -> default; serial: none -> S-3",
	}
	if !slices.Equal(steps(tried), want) {
		t.Fatalf("steps\n%s\nwant\n%s", strings.Join(steps(tried), "\n"), strings.Join(want, "\n"))
	}
	if nodes := s.nodes(); len(nodes) != 0 {
		t.Fatalf("a dry run made %v", nodes)
	}
	if _, err := c.ApplyFleet(t.Context(), api.Apply{Declaration: d, Plan: "another"}); !api.IsCode(err, api.Conflict) {
		t.Errorf("another plan: %v", err)
	}
	done := apply(t, c, api.Apply{Declaration: d, Plan: tried.Plan})
	if done.Plan != tried.Plan || len(s.nodes()) != 3 {
		t.Errorf("done: %v", steps(done))
	}
	if again := apply(t, c, api.Apply{Declaration: d}); len(again.Steps) != 0 {
		t.Errorf("a second time: %v", steps(again))
	}
	// Two nodes swap MAC and address. Fields that are left out get their defaults, except MACs and serial numbers.
	d = api.Declaration{
		Nodes: []api.NodeDeclare{declare("pc01", 2, func(d *api.NodeDeclare) { d.Address = "10.0.0.2" }),
			declare(
				"pc02",
				1,
				func(d *api.NodeDeclare) { d.Address = "10.0.0.1" },
			), {NodeCreate: api.NodeCreate{Name: "pc03"}}},
	}
	want = []string{
		"change node pc01 group: lab -> default; address: 10.0.0.1 -> 10.0.0.2; MACs: 02:00:00:00:00:01 -> " +
			"02:00:00:00:00:02; peers: off -> the group's",
		"change node pc02 address: 10.0.0.2 -> 10.0.0.1; MACs: 02:00:00:00:00:02 -> 02:00:00:00:00:01",
	}
	if got := steps(apply(t, c, api.Apply{Declaration: d})); !slices.Equal(got, want) {
		t.Errorf("steps\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestApplyPrunesWhatIsOwned: only owned things are deleted, and only with prune.
func TestApplyPrunesWhatIsOwned(t *testing.T) {
	s := startSite(t)
	s.policy(fleet.Approve)
	c := operatorOf(t, s)
	s.node(9).exchange("pxe")
	apply(t, c, api.Apply{Declaration: api.Declaration{
		Groups:  []fleet.Group{{Name: "lab"}, {Name: "old1"}, {Name: "old2"}, {Name: "kept"}},
		Classes: []fleet.Class{{Name: "x", Match: fleet.Match{CPU: []string{"y"}}}},
		Nodes: []api.NodeDeclare{
			declare("pc01", 1, func(d *api.NodeDeclare) { d.Group = "lab" }),
			declare("pc02", 2, func(d *api.NodeDeclare) { d.Group = "lab" }),
			declare("pc03", 3),
			declare("pc04", 4, func(d *api.NodeDeclare) { d.Group = "old1" }),
		}}})
	d := api.Declaration{
		Groups: []fleet.Group{{Name: "lab"}, {Name: "old2"}},
		Nodes:  []api.NodeDeclare{declare("pc01", 1, func(d *api.NodeDeclare) { d.Group = "lab" })},
		Owns: api.Owns{
			Nodes:   "@lab,@old1,@discovered",
			Groups:  []string{"old*", "default", "lab"},
			Classes: []string{"*"},
		},
	}
	if got := apply(t, c, api.Apply{Declaration: d}); len(got.Steps) != 0 {
		t.Errorf("without prune: %v", steps(got))
	}
	want := []string{"delete node pc02", "delete node pc04", "delete group old1", "delete class x"}
	if got := steps(apply(t, c, api.Apply{Declaration: d, Prune: true})); !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
	var left []string
	for _, n := range s.nodes() {
		left = append(left, n.Name)
	}
	if !slices.Equal(left, []string{"mac-525400000009", "pc01", "pc03"}) {
		t.Errorf("left: %v", left)
	}
	d.Owns.Nodes = ""
	d.Groups, d.Nodes = []fleet.Group{{Name: "old2"}}, nil
	_, err := c.ApplyFleet(t.Context(), api.Apply{Declaration: d, Prune: true})
	wantCode(t, err, api.Conflict, `group "lab" has 1 nodes`)
}

// TestApplyAllOrNothing: an error names the item, and nothing else of the declaration is applied.
func TestApplyAllOrNothing(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	crew(t, c, 1)
	for want, bad := range map[string]api.NodeDeclare{
		"nowhere":        declare("pc09", 9, func(d *api.NodeDeclare) { d.Group = "nowhere" }),
		"none":           declare("pc09", 9, func(d *api.NodeDeclare) { d.Version = "none:x" }),
		"no MAC address": {NodeCreate: api.NodeCreate{Name: "pc09"}},
		"belongs to":     {NodeCreate: api.NodeCreate{Name: "pc09", MACs: []fleet.MAC{{0x52, 0x54, 0, 0, 0, 1}}}},
		"twice":          declare("pc08", 8),
		"many machines":  {NodeCreate: api.NodeCreate{Name: "pc09", Serial: "None"}},
	} {
		_, err := c.ApplyFleet(
			t.Context(),
			api.Apply{
				Declaration: api.Declaration{
					Groups: []fleet.Group{{Name: "lab"}},
					Nodes:  []api.NodeDeclare{declare("pc08", 8), bad},
				},
			},
		)
		e, ok := err.(*api.Error)
		if !ok || e.Item != "node "+bad.Name || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %+v", want, err)
		}
	}
	if g, err := c.Groups(t.Context()); err != nil || len(g) != 1 || len(s.nodes()) != 1 {
		t.Errorf("something was done: %v, %v", g, err)
	}
}

// TestApplyOnly: only the fields that are columns of a table change.
func TestApplyOnly(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	apply(
		t,
		c,
		api.Apply{Declaration: api.Declaration{Nodes: []api.NodeDeclare{declare("pc01", 1, func(d *api.NodeDeclare) {
			d.Address, d.Peers, d.Labels = "10.0.0.1", ptr(
				fleet.PeersOff,
			), map[string]string{
				"room": "b12",
				"seat": "1",
				"old":  "x",
			}
		})}}},
	)
	d := declare("pc01", 1)
	d.Labels, d.Only = map[string]string{"seat": "2"}, []string{"name", "macs", "label:seat", "label:old"}
	want := []string{"change node pc01 label old: x -> none; label seat: 1 -> 2"}
	if got := steps(apply(t, c, api.Apply{Declaration: api.Declaration{Nodes: []api.NodeDeclare{d}}})); !slices.Equal(
		got,
		want,
	) {
		t.Errorf("steps %q, want %q", got, want)
	}
}

// TestApplySecrets: a declaration sets the scopes of secrets whose values the server has.
func TestApplySecrets(t *testing.T) {
	c := operatorOf(t, startSite(t))
	lab, all := fleet.Scope{Kind: fleet.ForGroup, Name: "lab"}, fleet.Scope{Kind: fleet.ForAll}
	d := api.Declaration{
		Groups:  []fleet.Group{{Name: "lab"}},
		Secrets: []fleet.Secret{{Name: "munge", For: []fleet.Scope{lab, all}}},
	}
	_, err := c.ApplyFleet(t.Context(), api.Apply{Declaration: d})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Item != "secret munge" ||
		!strings.Contains(e.Hint, "pando secret set munge") {
		t.Fatalf("a secret without a value: %v", err)
	}
	if _, err := c.SetSecret(t.Context(),
		api.SecretSet{Name: "munge", Value: []byte("hush"), For: &[]fleet.Scope{}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"create group lab", "change secret munge for: none -> all group:lab"}
	if got := steps(apply(t, c, api.Apply{Declaration: d})); !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
	d.Secrets[0].For = []fleet.Scope{all, lab}
	if again := apply(t, c, api.Apply{Declaration: d}); len(again.Steps) != 0 {
		t.Errorf("in another order: %v", steps(again))
	}
	out, err := c.ExportFleet(t.Context())
	if err != nil || len(out.Secrets) != 1 || !out.Secrets[0].Changed.IsZero() || len(out.Secrets[0].For) != 2 {
		t.Fatalf("export: %+v, %v", out.Secrets, err)
	}
	if text, err := json.Marshal(out); err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("the export: %s, %v", text, err)
	}
	if again := apply(t, c, api.Apply{Declaration: out}); len(again.Steps) != 0 {
		t.Errorf("the export: %v", steps(again))
	}
}

// TestExportIsApplied: after any changes of a fleet, applying its export changes nothing, even with all of it owned. On
// a new server the export makes the same fleet.
func TestExportIsApplied(t *testing.T) {
	s, other := startSite(t), startAlone(t)
	s.addImage()
	other.addImage()
	c, c2 := operatorOf(t, s), operatorOf(t, other)
	r := rand.New(rand.NewPCG(1, 2))
	name := func() string { return fmt.Sprintf("pc0%d", r.IntN(8)) }
	for round := range 12 {
		for range 4 {
			d := declare(name(), byte(r.IntN(250)), func(d *api.NodeDeclare) {
				d.Labels = map[string]string{"n": fmt.Sprint(r.IntN(3))}
				d.Version = []fleet.Ref{"", "lab", "lab:latest"}[r.IntN(3)]
				d.Follow = d.Version != "" && r.IntN(2) == 0
				if r.IntN(2) == 0 {
					d.Cache, d.CacheSize = ptr(fleet.CacheDisk), ptr(64_000_000+r.Int64N(1e9))
				}
			})
			g := fleet.Group{
				Name:       fmt.Sprint("g", r.IntN(4)),
				Settings:   fleet.Settings{Cache: ptr(fleet.CacheDisk), CacheSize: new(64e6 + r.Int64N(1e6))},
				KernelArgs: []string{fmt.Sprint("x=", r.IntN(9))},
			}
			d.Group = g.Name
			_, _ = c.ApplyFleet(
				t.Context(),
				api.Apply{Declaration: api.Declaration{Groups: []fleet.Group{g}, Nodes: []api.NodeDeclare{d}}},
			) // a MAC may be another's
			if r.IntN(4) == 0 {
				_, _ = c.DeleteNodes(t.Context(), name(), false) // there may be none
			}
		}
		e, err := c.ExportFleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e.Owns = api.Owns{Nodes: "@all", Groups: []string{"*"}, Classes: []string{"*"}}
		if got := apply(t, c, api.Apply{Declaration: e, Prune: true}); len(got.Steps) != 0 {
			t.Fatalf("round %d: %v", round, steps(got))
		}
		apply(t, c2, api.Apply{Declaration: e, Prune: true})
		e2, err := c2.ExportFleet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e2.Owns = e.Owns; fmt.Sprintf("%+v", flat(e)) != fmt.Sprintf("%+v", flat(e2)) {
			t.Fatalf("round %d: the other server has\n%+v\nwant\n%+v", round, flat(e2), flat(e))
		}
	}
}

// flat returns a declaration without pointers, to be compared as text.
func flat(d api.Declaration) []any {
	out := []any{*d.Policy, d.Classes, d.Owns}
	for _, g := range d.Groups {
		out = append(out, g.Name, g.Image, g.KernelArgs, flatSettings(g.Settings))
	}
	for _, n := range d.Nodes {
		out = append(out, n.Name, n.MACs, n.Group, n.Labels, n.Version, flatSettings(n.Settings))
	}
	return out
}

func flatSettings(s fleet.Settings) (out []string) {
	for _, x := range s.Explicit() {
		out = append(out, x.Key+" "+x.Text(s))
	}
	return out
}
