package server

import (
	"slices"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
)

// release makes a version as a build does: lab:latest moves to it.
func (s *site) release(c *api.Client, arg string) fleet.Digest {
	s.t.Helper()
	_, d := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{arg} })
	if _, err := c.AddVersion(s.t.Context(), "lab", api.VersionAdd{Version: d, Tags: []string{"latest"}}); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// A group and a node that are given an image name boot the version that it names now. A build does not change that; a
// rollout does. A group that follows a tag boots each new version of it.
func TestBuildReleasesNothing(t *testing.T) {
	s, ctx := startSite(t), t.Context()
	c := operatorOf(t, s)
	v1 := s.release(c, "one")
	crew(t, c, 2)
	lab, room := fleet.Ref("lab"), "room"
	if _, err := c.CreateGroup(ctx, fleet.Group{Name: room, Image: lab, Follow: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetNodes(ctx, api.NodeSet{Select: "@all", Group: &room}); err != nil {
		t.Fatal(err)
	}
	if ch, err := c.SetGroup(ctx, room, api.GroupSet{Image: &lab}); err != nil || len(ch.Fields) != 1 ||
		ch.Fields[0] != "image: follows lab:latest -> lab@"+v1.Short() {
		t.Fatalf("%+v, %v", ch, err)
	}
	if _, err := c.CreateGroup(ctx, fleet.Group{Name: "kiosks", Image: "lab", Follow: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetNodes(ctx, api.NodeSet{Select: "pc02", Version: &lab}); err != nil {
		t.Fatal(err)
	}
	v2 := s.release(c, "two")
	want := func(group string, image fleet.Ref, follow bool, version fleet.Digest) {
		t.Helper()
		g, err := c.Group(ctx, group)
		if err != nil || g.Image != image || g.Follow != follow || g.Desired != version {
			t.Errorf("group %s: %+v, %v", group, g, err)
		}
	}
	want(room, "lab@"+fleet.Ref(v1), false, v1)
	want("kiosks", "lab:latest", true, v2)
	for _, name := range []string{"pc01", "pc02"} {
		if n, err := c.Node(ctx, name); err != nil || n.Desired != v1 {
			t.Errorf("after a build %s desires %s, not %s, %v", name, n.Desired, v1, err)
		}
	}
	x, err := c.StartRollout(ctx, api.RolloutStart{Group: room, Image: "lab", DryRun: true})
	if err != nil || x.To != "lab@"+fleet.Ref(v2) {
		t.Errorf("a rollout has nothing to do: %+v, %v", x, err)
	}
	short := fleet.Ref("lab@" + v2.Short())
	if _, err := c.SetNodes(ctx, api.NodeSet{Select: "pc02", Version: &short}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Node(ctx, "pc02"); err != nil || n.Version != "lab@"+fleet.Ref(v2) || n.Desired != v2 {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := c.SetGroup(ctx, "kiosks", api.GroupSet{Image: &lab}); err != nil {
		t.Fatal(err)
	}
	want("kiosks", "lab@"+fleet.Ref(v2), false, v2)
	_, err = c.SetGroup(ctx, "kiosks", api.GroupSet{Image: &short, Follow: true})
	wantCode(t, err, api.BadRequest, "cannot be followed")
	_, err = c.SetGroup(ctx, "kiosks", api.GroupSet{Follow: true})
	wantCode(t, err, api.BadRequest, "no tag to follow is named")
}

// A fleet file with a tag means the version of the tag when the file is applied. A group that follows this tag already
// goes on following it, so that an old file changes nothing.
func TestApplyPinsATag(t *testing.T) {
	s, ctx := startSite(t), t.Context()
	c := operatorOf(t, s)
	v1 := s.release(c, "one")
	for _, g := range []fleet.Group{{Name: "old", Image: "lab", Follow: true}, {Name: "other"}} {
		if _, err := c.CreateGroup(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	file := api.Apply{Declaration: api.Declaration{Groups: []fleet.Group{
		{Name: "old", Image: "lab"}, {Name: "other", Image: "lab:latest"}, {Name: "new", Image: "lab", Follow: true},
	}}}
	want := []string{"change group other image: none -> lab@" + v1.Short(),
		"create group new image: none -> follows lab:latest"}
	if got := steps(apply(t, c, file)); !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
	// The same file again releases no build. A rollout does, or a version that is named.
	v2 := s.release(c, "two")
	again := apply(t, c, file)
	if got := steps(again); len(got) > 0 {
		t.Errorf("the same file again does %q", got)
	}
	note := "group other stays at lab@" + v1.Short() + "; lab:latest names lab@" + v2.Short() +
		" now: pando rollout start @other brings it"
	if !slices.Equal(again.Notes, []string{note}) {
		t.Errorf("it notes %q, want %q", again.Notes, note)
	}
	file.Groups[1].Image = fleet.Ref("lab@" + v2)
	want = []string{"change group other image: lab@" + v1.Short() + " -> lab@" + v2.Short()}
	if got := steps(apply(t, c, file)); !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
}
