package server

import (
	"slices"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/registry"
	"pando/internal/server/packs"
)

// addVersions adds versions that differ in a file; the tag latest ends on the last one.
func (s *site) addVersions(names ...string) (out []fleet.Digest) {
	for _, n := range names {
		_, v := s.addRoot(map[string][]byte{n: []byte(n), "always": program(1, 100_000)})
		out = append(out, v)
		s.clock.add(time.Second)
	}
	return out
}

// later makes the collector see the store's files as older by d.
func (s *site) later(d time.Duration) {
	s.collector.Written = func() time.Time { return time.Now().Add(d) }
}

// gc collects garbage and keeps no version for its age or for being new.
func (s *site) gc(t *testing.T, change ...func(*api.StoreCollect)) api.StoreCollected {
	t.Helper()
	none := 0
	req := api.StoreCollect{Keep: &none}
	for _, c := range change {
		c(&req)
	}
	out, err := operatorOf(t, s).CollectStore(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	report, err := s.store.Check(t.Context(), []string{s.keys.SitePublic()}, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("the store: %v, %v", report.Problems, err)
	}
	return out
}

func gone(c api.StoreCollected) (out []fleet.Digest) {
	for _, v := range c.Versions {
		out = append(out, v.Version)
	}
	return out
}

func TestCollectLeavesWhatIsHeld(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	v := s.addVersions("tagged", "group", "node", "unheld", "latest")
	crew(t, c, 1)
	steps := []error{}
	_, err := c.SetTag(t.Context(), "lab", "old", api.TagSet{Ref: fleet.Ref("lab@" + string(v[0]))})
	steps = append(steps, err)
	_, err = c.CreateGroup(t.Context(), fleet.Group{Name: "lab", Image: fleet.Ref("lab@" + string(v[1]))})
	steps = append(steps, err)
	_, err = c.SetNodes(t.Context(), api.NodeSet{Select: "pc01", Version: ptr(fleet.Ref("lab@" + string(v[2])))})
	for _, err := range append(steps, err) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if out := s.gc(t); len(out.Versions) > 0 {
		t.Errorf("fresh ones went: %+v", out.Versions)
	}
	s.later(48 * time.Hour)
	dry := s.gc(t, func(r *api.StoreCollect) { r.DryRun = true })
	if !slices.Equal(gone(dry), v[3:4]) || len(dry.Held) != 4 {
		t.Errorf("dry run: %+v", dry)
	}
	for _, h := range dry.Held {
		want := map[fleet.Digest]string{v[0]: "tag lab:old", v[1]: "group lab", v[2]: "node pc01",
			v[4]: "tag lab:latest"}[h.Version]
		if !slices.Contains(h.By, want) {
			t.Errorf("%s is held by %v, want %s", h.Version.Short(), h.By, want)
		}
	}
	if out := s.gc(t, func(r *api.StoreCollect) { r.Keep = ptr(2) }); len(out.Versions) > 0 {
		t.Errorf("one of the newest two went: %+v", out.Versions)
	}
	if out := s.gc(t); !slices.Equal(gone(out), v[3:4]) || out.Versions[0].Image != "lab" {
		t.Errorf("%+v", out)
	}
	img, err := c.Image(t.Context(), "lab")
	if err != nil || len(img.Versions) != 4 {
		t.Errorf("left %+v, %v", img.Versions, err)
	}
	_, err = c.SetTag(t.Context(), "lab", "late", api.TagSet{Ref: fleet.Ref("lab@" + string(v[3]))})
	wantCode(t, err, api.NotFound, "")
}

// A version that a node runs or boots stays after all names have moved away, until the node boots another one or is
// silent for long.
func TestCollectLeavesWhatNodesRun(t *testing.T) {
	s := startSite(t)
	first := s.addVersions("first")[0]
	s.boot(1, "")
	s.boot(2, "")
	second := s.addVersions("second")[0]
	n := s.node(3)
	n.load() // it has the kernel of the second version and has not registered
	s.addVersions("third")
	s.later(48 * time.Hour)
	if out := s.gc(t); len(out.Versions) > 0 {
		t.Errorf("nodes run %s and boot %s; gone are %v", first.Short(), second.Short(), gone(out))
	}
	s.boot(1, "")
	s.clock.add(time.Minute)
	n.load()
	n = s.node(2) // it starts to boot the third, and may never finish
	n.load()
	if out := s.gc(t); !slices.Equal(gone(out), []fleet.Digest{second}) {
		t.Errorf(
			"node 2 still runs %s, nobody boots %s any more; gone are %v",
			first.Short(),
			second.Short(),
			gone(out),
		)
	}
	s.clock.add(fleetview.SilentAfter + time.Hour)
	if out := s.gc(t); !slices.Equal(gone(out), []fleet.Digest{first}) {
		t.Errorf("all were silent for long; gone are %v", gone(out))
	}
}

// The version that a node reports counts, whatever it was assigned.
func TestCollectLeavesWhatNodesReport(t *testing.T) {
	s := startSite(t)
	v := s.addVersions("first", "second")
	a, _ := s.boot(1, "")
	boots, err := operatorOf(t, s).Boots(t.Context(), "", 1)
	if err != nil || len(boots) != 1 || a.Version != v[1] {
		t.Fatal(boots, err)
	}
	if err := s.registry.PutStatus(t.Context(), boots[0].ID, []byte(`{"version":"`+string(v[0])+`"}`),
		s.clock.now()); err != nil {
		t.Fatal(err)
	}
	s.later(48 * time.Hour)
	if out := s.gc(t); len(out.Versions) > 0 {
		t.Errorf("gone are %v", gone(out))
	}
}

// Versions without an image, their traces, and unfinished old builds are removed too.
func TestCollectTakesWhatBelongsToNobody(t *testing.T) {
	s := startSite(t)
	v := s.addVersions("first", "second")
	if err := s.traces.Put(v[0], packs.Trace{Boot: "0011223344556677"}); err != nil {
		t.Fatal(err)
	}
	err := s.registry.Update(t.Context(), func(tx *registry.Tx) error { return tx.DeleteVersion("lab", v[0]) })
	if err != nil {
		t.Fatal(err)
	}
	s.later(48 * time.Hour)
	out := s.gc(t)
	if !slices.Equal(gone(out), v[:1]) || out.Versions[0].Image != "" {
		t.Errorf("%+v", out)
	}
	if left, err := s.traces.Versions(); err != nil || len(left) > 0 {
		t.Errorf("traces left of %v, %v", left, err)
	}
}

func TestStoreUsage(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	_, first := s.addRoot(map[string][]byte{"always": program(1, 300_000), "then": program(2, 200_000)})
	s.clock.add(time.Second)
	_, second := s.addRoot(map[string][]byte{"always": program(1, 300_000), "now": program(3, 200_000)})
	if _, err := c.AddVersion(t.Context(), "copy",
		api.VersionAdd{Version: second, Tags: []string{"latest"}}); err != nil {
		t.Fatal(err)
	}
	u, err := c.StoreUsage(t.Context())
	if err != nil || len(u.Images) != 2 || len(u.Broken) > 0 || u.Unnamed != int64(len("index")) {
		t.Fatalf("%+v, %v", u, err)
	}
	sum := u.Shared + u.Packs + u.Unnamed
	for _, i := range u.Images {
		sum += i.Bytes
	}
	if sum != u.Bytes || u.Bytes == 0 || u.Whole <= u.Bytes {
		t.Errorf("the parts have %d of %d bytes: %+v", sum, u.Bytes, u)
	}
	lab := u.Images[slices.IndexFunc(u.Images, func(i api.ImageUsage) bool { return i.Image == "lab" })]
	if v := lab.Versions; len(v) != 2 || v[0].Version != second || v[1].Version != first || v[1].New != v[1].Total ||
		v[0].New >= v[0].Total ||
		v[1].Own == 0 ||
		v[1].Own+v[1].Shared != v[1].Total ||
		!slices.Equal(v[0].Tags, []string{"latest"}) {
		t.Errorf("lab: %+v", lab)
	}
	if lab.Bytes != lab.Versions[1].Own {
		t.Errorf(
			"no other image has %d bytes of lab, the first version has %d of its own",
			lab.Bytes,
			lab.Versions[1].Own,
		)
	}
}
