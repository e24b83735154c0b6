package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
)

// addExtension adds an extension of a version.
func (s *site) addExtension(c *api.Client, name string, base fleet.Digest) (fleet.Digest, error) {
	s.t.Helper()
	return s.addExtensionOf(
		c,
		name,
		base,
		image.Root{FileSystem: "erofs", Index: chunk.Sum([]byte(name)), Size: 4096, ChunkSize: 65536},
	)
}

// addExtensionOf is addExtension with a root. Nodes that have the extension get it.
func (s *site) addExtensionOf(c *api.Client, name string, base fleet.Digest, root image.Root) (fleet.Digest, error) {
	s.t.Helper()
	d := s.putExtension(name, base, root)
	_, err := c.AddVersion(s.t.Context(), name,
		api.VersionAdd{Version: d, Tags: []string{fleet.LatestTag}, Release: true})
	return d, err
}

// putExtension puts an extension into the store.
func (s *site) putExtension(name string, base fleet.Digest, root image.Root) fleet.Digest {
	s.t.Helper()
	m := image.Manifest{Format: 1, Architecture: "amd64", Root: root, Extends: &image.Extends{Name: name, Base: base}}
	data, err := m.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := s.store.PutVersion(
		store.Version{Manifest: data, Signature: image.JoinSignatures(image.SignAll(data, s.keys.Ring.Signers()), nil)},
	)
	if err != nil {
		s.t.Fatal(err)
	}
	s.clock.add(time.Second)
	return d
}

func (s *site) mustExtend(c *api.Client, name string, base fleet.Digest) fleet.Digest {
	s.t.Helper()
	d, err := s.addExtension(c, name, base)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// refusedWith fails unless an error has a text.
func refusedWith(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want %q", what, err, text)
	}
}

// A running node is told when its group's extensions differ from its own. The extensions that it reports are shown and
// recorded.
func TestExtensionsOfARunningNode(t *testing.T) {
	s := startSite(t)
	base := s.withSystemd("252.1")
	c, ctx := operatorOf(t, s), t.Context()
	n := s.node(1)
	boot, session := s.running(n)
	tools := s.mustExtend(c, "tools", base)
	report := func(has ...fleet.Extension) (out api.ReportResponse) {
		t.Helper()
		req := api.ReportRequest{
			Boot:       boot,
			Uptime:     time.Hour,
			Events:     []trace.Event{},
			Extensions: fleet.ExtensionsKey(has),
			Status:     &api.NodeStatus{Version: base, Extensions: has, Systemd: &api.Systemd{State: "running"}},
		}
		if e := n.post("/v1/node/events", session, req, &out); e != nil {
			t.Fatal(e)
		}
		return out
	}
	if report().Extend {
		t.Error("it is told of extensions, and there are none")
	}
	if _, err := c.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Extensions: &[]string{"tools"}}}}); err != nil {
		t.Fatal(err)
	}
	if !report().Extend {
		t.Error("it is not told of its extension")
	}
	var told api.StageResponse
	if e := n.post("/v1/node/extensions", session, api.NodeNext{Boot: boot}, &told); e != nil {
		t.Fatal(e)
	}
	var a fleet.Assignment
	if err := json.Unmarshal(told.Assignment, &a); err != nil {
		t.Fatal(err)
	}
	want := []fleet.Extension{{Name: "tools", Version: tools}}
	if !slices.Equal(a.Extensions, want) || a.Version != base || len(a.Problems) > 0 {
		t.Errorf("%+v", a)
	}
	d, err := c.DiffNodes(ctx, "node001")
	if err != nil || !d[0].Changes || len(d[0].ExtensionsNew) != 1 {
		t.Errorf("before it has it: %+v, %v", d, err)
	}
	if report(want...).Extend {
		t.Error("it has what it should have, and is told again")
	}
	got, err := c.Node(ctx, "node001")
	if err != nil || !slices.Equal(got.Status.Extensions, want) || !slices.Equal(got.Over, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if d, err = c.DiffNodes(ctx, "node001"); err != nil || len(d[0].ExtensionsNew)+len(d[0].ExtensionsGone) > 0 {
		t.Errorf("when it has it: %+v, %v", d, err)
	}
	if status, body := n.postRaw("/v1/node/extensions", "Boot "+strings.Repeat("a", 26),
		api.NodeNext{Boot: boot}); status != 401 {
		t.Errorf("without a session: %d %s", status, body)
	}
}

// An extension without a boot pack gets one of its whole content, which is assigned with it. With peers off, the pack
// is assigned all the same, but no swarm.
func TestExtensionsArePacked(t *testing.T) {
	s := startSite(t)
	base := s.withSystemd("252.1")
	c, ctx := operatorOf(t, s), t.Context()
	n := s.node(1)
	boot, session := s.running(n)
	tools, err := s.addExtensionOf(
		c,
		"tools",
		base,
		s.realRoot(map[string][]byte{"usr/bin/a": program(1, 400_000), "usr/bin/b": program(2, 100_000)}),
	)
	if err != nil {
		t.Fatal(err)
	}
	r := s.packed(tools, "", func(bootpack.Record) bool { return true })
	if r.Raw < 500_000 || r.Boots != 0 {
		t.Errorf("packed as %+v", r)
	}
	assigned := func() (a fleet.Assignment) {
		t.Helper()
		var told api.StageResponse
		if e := n.post("/v1/node/extensions", session, api.NodeNext{Boot: boot}, &told); e != nil {
			t.Fatal(e)
		}
		if err := json.Unmarshal(told.Assignment, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	set := func(g api.GroupSet) {
		t.Helper()
		if _, err := c.SetGroup(ctx, fleet.DefaultGroup, g); err != nil {
			t.Fatal(err)
		}
	}
	set(api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Extensions: &[]string{"tools"}}}})
	a := assigned()
	ref := a.ExtensionPacks[tools]
	s.verified(fleet.Assignment{Version: tools, Pack: &ref})
	if len(a.ExtensionPacks) != 1 || a.Swarm == nil || a.Pack != nil {
		t.Errorf("assigned is %+v", a)
	}
	off := fleet.PeersOff
	set(api.GroupSet{Settings: fleet.Settings{Peers: &off}})
	if a := assigned(); a.Swarm != nil || len(a.ExtensionPacks) != 1 {
		t.Errorf("without peers: %+v", a)
	}
	s.packs.Look(tools)
	s.packs.Look(base)
	if again := s.packed(tools, "", func(bootpack.Record) bool { return s.packs.Waiting() == 0 }); again.Sequence != 1 {
		t.Errorf("it was packed again: %+v", again)
	}
}

// An image with an extension that was not made for it is refused, wherever the two are combined. A tag with a version
// of the extension for each image version fits both.
func TestExtensionsOfOtherVersions(t *testing.T) {
	s := startSite(t)
	old := s.withSystemd("252.1")
	c, ctx := operatorOf(t, s), t.Context()
	first := s.mustExtend(c, "tools", old)
	next := s.withSystemd("252.1", otherRoot(2))
	oldRef, nextRef := fleet.Ref("lab@"+old), fleet.Ref("lab@"+next)
	over := fleet.Settings{Keeping: fleet.Keeping{Extensions: &[]string{"tools"}}}
	if _, err := c.CreateGroup(ctx, fleet.Group{Name: "new", Image: nextRef, Settings: over}); true {
		refusedWith(t, "a new group", err, "extension tools was made on "+old.Short())
	}
	if _, err := c.CreateGroup(ctx, fleet.Group{Name: "lab", Image: oldRef, Settings: over}); err != nil {
		t.Fatal(err)
	}
	_, err := c.SetGroup(ctx, "lab", api.GroupSet{Image: &nextRef})
	refusedWith(t, "another image", err, "extension tools was made on")
	_, err = c.StartRollout(ctx, api.RolloutStart{Group: "lab", Image: nextRef})
	refusedWith(t, "a rollout", err, "extension tools was made on")
	tools := fleet.Ref("tools")
	_, err = c.SetGroup(ctx, "lab", api.GroupSet{Image: &tools})
	refusedWith(t, "an extension as an image", err, "cannot boot")
	_, err = c.SetGroup(
		ctx,
		"lab",
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Extensions: &[]string{"lab"}}}},
	)
	refusedWith(t, "an image as an extension", err, "not an extension")
	_, err = s.addExtension(c, "lab", old)
	refusedWith(t, "an extension by the name of an image", err, "is taken")

	second := s.mustExtend(c, "tools", next)
	for base, want := range map[fleet.Digest]fleet.Digest{old: first, next: second} {
		s.update(func(tx *registry.Tx) error {
			got, problems := s.versions.Over(tx, []string{"tools"}, base)
			if len(problems) > 0 || len(got) != 1 || got[0].Version != want {
				t.Errorf("over %s: %v, %v", base.Short(), got, problems)
			}
			got, problems = s.versions.Over(tx, []string{"tools@" + string(first)}, base)
			if (base == old) != (len(got) == 1) || (base == old) != (len(problems) == 0) {
				t.Errorf("a digest over %s: %v, %v", base.Short(), got, problems)
			}
			return nil
		})
	}
	if _, err := c.SetGroup(ctx, "lab", api.GroupSet{Image: &nextRef}); err != nil {
		t.Errorf("an image of which there is an extension: %v", err)
	}
}
