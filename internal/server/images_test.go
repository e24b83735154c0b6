package server

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
)

func TestTagsMoveNodes(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	_, first := s.addImage()
	_, second := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"second"} })
	crew(t, c, 2)
	if _, err := c.SetTag(t.Context(), "lab", "old", api.TagSet{Ref: fleet.Ref("lab@" + string(first))}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetNodes(
		t.Context(),
		api.NodeSet{Select: "pc02", Version: ptr(fleet.Ref("lab:old")), Follow: true},
	); err != nil {
		t.Fatal(err)
	}
	ch, err := c.SetTag(t.Context(), "lab", "latest", api.TagSet{Ref: fleet.Ref("lab@" + string(first)), DryRun: true})
	if err != nil || ch.Was != second || ch.Tag.Version != first || !slices.Equal(ch.Nodes, []string{"pc01"}) {
		t.Errorf("dry run says %+v, %v", ch, err)
	}
	img, err := c.Image(t.Context(), "lab")
	if err != nil || img.Tags["latest"] != second || img.Tags["old"] != first || len(img.Versions) != 2 {
		t.Fatalf("%+v, %v", img, err)
	}
	if v := img.Versions[slices.IndexFunc(img.Versions,
		func(v api.Version) bool { return v.Digest == first })]; !slices.Equal(
		v.InUse,
		[]string{"node pc02"},
	) ||
		v.Kernel != "6.1.0" ||
		v.DriversSize != 13 {
		t.Errorf("version is %+v", v)
	}
	wantCode(t, c.DeleteTag(t.Context(), "lab", "old"), api.Conflict, "node pc02")
	wantCode(t, c.DeleteTag(t.Context(), "lab", "latest"), api.Conflict, "group default")
	wantCode(t, c.DeleteTag(t.Context(), "lab", "none"), api.NotFound, "none")
	_, err = c.SetTag(t.Context(), "lab", "x", api.TagSet{Ref: "other:latest"})
	wantCode(t, err, api.BadRequest, "cannot point at image other")
	_, err = c.SetTag(t.Context(), "lab", "x", api.TagSet{Ref: "lab:none"})
	wantCode(t, err, api.NotFound, "none")
}

func TestAddVersionRefusesWhatNodesWould(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	_, d := s.addImage()
	if img, err := c.AddVersion(t.Context(), "other",
		api.VersionAdd{Version: d, Tags: []string{"latest", "stable"}}); err != nil ||
		len(img.Tags) != 2 {
		t.Errorf("%+v, %v", img, err)
	}
	_, err := c.AddVersion(
		t.Context(),
		"other",
		api.VersionAdd{Version: fleet.Digest("sha256:" + strings.Repeat("0", 64))},
	)
	wantCode(t, err, api.NotFound, "sha256:0000")
	_, err = c.AddVersion(t.Context(), "Other", api.VersionAdd{Version: d})
	wantCode(t, err, api.BadRequest, "image name")
	if err := os.WriteFile(s.store.SignaturePath(d), []byte("untrusted comment: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = c.AddVersion(t.Context(), "third", api.VersionAdd{Version: d})
	wantCode(t, err, api.BadRequest, "signature")
}

func TestGroups(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	s.addImage()
	crew(t, c, 3)
	if _, err := c.CreateGroup(t.Context(), fleet.Group{Name: "lab", Image: "lab:latest"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.CreateGroup(t.Context(), fleet.Group{Name: "lab"})
	wantCode(t, err, api.Conflict, "lab")
	_, err = c.CreateGroup(t.Context(), fleet.Group{Name: "all"})
	wantCode(t, err, api.BadRequest, "all")
	_, err = c.SetGroup(t.Context(), "lab", api.GroupSet{Image: ptr(fleet.Ref("lab:none"))})
	wantCode(t, err, api.NotFound, "none")
	_, err = c.SetGroup(t.Context(), "lab", api.GroupSet{Settings: fleet.Settings{WriteLimit: ptr("much")}})
	wantCode(t, err, api.BadRequest, "write limit")
	_, err = c.SetGroup(t.Context(), "none", api.GroupSet{Settings: fleet.Settings{WriteLimit: ptr("50%")}})
	wantCode(t, err, api.NotFound, "none")

	ch, err := c.SetGroup(t.Context(), "default", api.GroupSet{KernelArgs: &[]string{"quiet"}, DryRun: true})
	if err != nil || len(ch.Nodes) != 3 || !slices.Equal(ch.Fields, []string{"kernel args: none -> quiet"}) {
		t.Errorf("%+v, %v", ch, err)
	}
	ch, err = c.SetGroup(t.Context(), "default", api.GroupSet{Image: ptr(fleet.Ref(""))})
	if err != nil || len(ch.Nodes) != 3 {
		t.Errorf("%+v, %v", ch, err)
	}
	if g, err := c.Group(t.Context(), "default"); err != nil || g.Image != "" || len(g.KernelArgs) != 0 ||
		g.Nodes != 3 ||
		g.Desired != "" {
		t.Errorf("%+v, %v", g, err)
	}
	wantCode(t, c.DeleteGroup(t.Context(), "default"), api.Conflict, "default")
	if _, err := c.SetNodes(t.Context(), api.NodeSet{Select: "pc01", Group: ptr("lab")}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.DeleteGroup(t.Context(), "lab"), api.Conflict, "1 nodes")
	if _, err := c.DeleteNodes(t.Context(), "pc01", false); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteGroup(t.Context(), "lab"); err != nil {
		t.Error(err)
	}
}
