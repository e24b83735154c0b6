package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/server/objects"
)

// debian returns a root with dpkg's databases of packages that have one file each.
func debian(versions map[string]string, files map[string][]byte) map[string][]byte {
	out := map[string][]byte{"usr/lib/os-release": []byte("ID=debian\nVERSION_ID=\"12\"\n")}
	status := ""
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range versions {
			if !yield(n) {
				return
			}
		}
	}) {
		status += fmt.Sprintf(
			"Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: %s\n\n",
			name,
			versions[name],
		)
		out["var/lib/dpkg/info/"+name+":amd64.list"] = []byte("/.\n/lib\n/lib/" + name + ".so\n")
		out["usr/lib/"+name+".so"] = files[name]
	}
	out["var/lib/dpkg/status"] = []byte(status + "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n")
	return out
}

func TestImageDiff(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	same, was, is := program(1, 500_000), program(2, 400_000), program(3, 410_000)
	s.addRoot(
		debian(
			map[string]string{"libsame": "1", "libssl": "3.0.1", "libzold": "1"},
			map[string][]byte{"libsame": same, "libssl": was, "libzold": same[:70_000]},
		),
	)
	if _, err := c.SetTag(t.Context(), "lab", "before", api.TagSet{Ref: "lab:latest"}); err != nil {
		t.Fatal(err)
	}
	_, second := s.addRoot(
		debian(
			map[string]string{"libsame": "1", "libssl": "3.0.2", "libznew": "1"},
			map[string][]byte{"libsame": same, "libssl": is, "libznew": program(4, 100_000)},
		),
	)
	d, err := c.ImageDiff(t.Context(), "lab:before", "lab:latest")
	if err != nil || d.ToHas != second || d.Kernel != 0 || d.Drivers != 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	change, sum := map[string]api.FileChange{}, int64(0)
	for _, f := range d.Files {
		change[f.Path] = f
		sum += f.Fetch
	}
	if sum != d.Root || d.Root <= 0 || d.Root >= d.Whole {
		t.Errorf("the files have %d of %d bytes, all is %d", sum, d.Root, d.Whole)
	}
	for path, want := range map[string]string{"usr/lib/libssl.so": "changed", "usr/lib/libznew.so": "added",
		"usr/lib/libzold.so": "removed", "var/lib/dpkg/status": "changed",
		"usr/lib/os-release": "", "usr/lib/libsame.so": ""} {
		if f := change[path]; f.Change != want && !(want == "" && f.Change == "together") {
			t.Errorf("%s: %q, want %q", path, f.Change, want)
		}
	}
	if f := change["usr/lib/libssl.so"]; f.Package != "libssl" || f.Was != 400_000 || f.Is != 410_000 ||
		f.Fetch < 40_000 ||
		f.Fetch > 410_000 {
		t.Errorf("%+v", f)
	}
	packages := map[string]api.PackageChange{}
	for _, p := range d.Packages {
		packages[p.Name] = p
	}
	if p := packages["libssl"]; p.Was != "3.0.1" || p.Is != "3.0.2" || p.Files != 1 ||
		p.Fetch != change["usr/lib/libssl.so"].Fetch {
		t.Errorf("%+v", p)
	}
	if packages["libzold"].Is != "" || packages["libzold"].Was != "1" || packages["libznew"].Was != "" ||
		packages["gone"].Name != "" {
		t.Errorf("%+v", d.Packages)
	}
	same2, err := c.ImageDiff(t.Context(), "lab:latest", fleet.Ref("lab@"+string(second)))
	if err != nil || same2.Root != 0 || len(same2.Files)+len(same2.Packages) > 0 {
		t.Errorf("a version differs from itself: %+v, %v", same2, err)
	}
	_, err = c.ImageDiff(t.Context(), "lab:none", "lab:latest")
	wantCode(t, err, api.NotFound, "none")
	_, err = c.ImageDiff(t.Context(), "No", "lab")
	wantCode(t, err, api.BadRequest, "from")

	b, err := c.ImageSBOM(t.Context(), "lab:before")
	var doc struct {
		Packages []struct{ Name, VersionInfo string }
	}
	if err != nil || json.Unmarshal(b, &doc) != nil || len(doc.Packages) != 4 || doc.Packages[2].Name != "libssl" ||
		doc.Packages[2].VersionInfo != "3.0.1" ||
		!strings.Contains(string(b), "pkg:deb/debian/libssl@3.0.1?arch=amd64\\u0026distro=debian-12") {
		t.Errorf("bill of materials: %s, %v", b, err)
	}
}

func TestImageHistory(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	_, first := s.addRoot(map[string][]byte{"always": program(1, 300_000)})
	s.clock.add(time.Hour)
	_, second := s.addRoot(map[string][]byte{"always": program(1, 300_000), "more": program(2, 100_000)})
	for _, to := range []fleet.Digest{first, second, second} {
		s.clock.add(time.Minute)
		if _, err := c.SetTag(t.Context(), "lab", "stable",
			api.TagSet{Ref: fleet.Ref("lab@" + string(to))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteTag(t.Context(), "lab", "stable"); err != nil {
		t.Fatal(err)
	}
	h, err := c.ImageHistory(t.Context(), "lab")
	if err != nil || len(h.Versions) != 2 || h.Versions[0].Digest != second || h.Versions[1].Digest != first {
		t.Fatalf("%+v, %v", h, err)
	}
	if v := h.Versions; v[0].New == 0 || v[0].New >= v[1].New || !v[0].Added.After(v[1].Added) ||
		!slices.Equal(v[0].Tags, []string{"latest"}) {
		t.Errorf("%+v", v)
	}
	var moves []string
	for _, m := range h.Tags {
		if m.Tag == "stable" {
			moves = append(moves, m.Was.Short()+" "+m.Version.Short()+" "+m.Who)
		}
	}
	if want := []string{second.Short() + "  this machine", first.Short() + " " + second.Short() + " this machine",
		" " + first.Short() + " this machine"}; !slices.Equal(
		moves,
		want,
	) {
		t.Errorf("moves %q, want %q", moves, want)
	}
	_, err = c.ImageHistory(t.Context(), "none")
	wantCode(t, err, api.NotFound, "none")
}

// An unused version can be deleted from its image. A version that a tag, a group or a running node uses cannot.
func TestDeleteVersion(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	v := s.addVersions("first", "second", "third")
	wantCode(t, c.DeleteVersion(t.Context(), "lab", v[2]), api.Conflict, "tag lab:latest")
	s.boot(1, "")
	s.addVersions("fourth")
	s.clock.add(time.Hour)
	wantCode(t, c.DeleteVersion(t.Context(), "lab", v[2]), api.Conflict, "node ")
	if err := c.DeleteVersion(t.Context(), "lab", v[0]); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.DeleteVersion(t.Context(), "lab", v[0]), api.NotFound, "")
	wantCode(t, c.DeleteVersion(t.Context(), "lab", "sha256:x"), api.BadRequest, "")
	if s.store.Written(v[0]).IsZero() {
		t.Error("its files went before anything was collected")
	}
	s.later(48 * time.Hour)
	if out := s.gc(t); !slices.Contains(gone(out), v[0]) {
		t.Errorf("collected %v", gone(out))
	}
}

// A version stays for a while after its tag has moved: a boot may have been assigned it.
func TestCollectLeavesWhatATagJustLeft(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	v := s.addVersions("first", "second")
	if _, err := c.SetTag(t.Context(), "lab", "latest", api.TagSet{Ref: fleet.Ref("lab@" + string(v[0]))}); err != nil {
		t.Fatal(err)
	}
	s.later(48 * time.Hour)
	if out := s.gc(t); len(out.Versions) > 0 {
		t.Errorf("gone are %v", gone(out))
	}
	s.clock.add(objects.TagKept + time.Second)
	if out := s.gc(t); !slices.Equal(gone(out), v[1:]) {
		t.Errorf("gone are %v", gone(out))
	}
	var moves []registry.TagMove
	err := s.registry.View(t.Context(), func(tx *registry.Tx) (err error) {
		moves, err = tx.TagMoves("lab")
		return err
	})
	if err != nil || len(moves) == 0 || moves[0].Version != v[0] || moves[0].Was != v[1] {
		t.Errorf("moves %+v, %v", moves, err)
	}
}

// TestPackagesThatDiffer: a comparison lists packages that are new, gone, newer and only rebuilt. A package with
// unchanged files is not listed, even if its bytes are beside those of a changed one.
func TestPackagesThatDiffer(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	versions, files := map[string]string{}, map[string][]byte{}
	for i := range 40 {
		name := fmt.Sprintf("lib%02d", i)
		versions[name], files[name] = "1", program(uint64(i+1), 9000)
	}
	s.addRoot(debian(versions, files))
	if _, err := c.SetTag(t.Context(), "lab", "before", api.TagSet{Ref: "lab:latest"}); err != nil {
		t.Fatal(err)
	}
	versions["lib20a"], files["lib20a"] = "1", program(100, 9000)
	versions["lib05"], files["lib05"] = "2", program(101, 9000)
	files["lib07"] = program(102, 9000)
	delete(versions, "lib11")
	s.addRoot(debian(versions, files))
	d, err := c.ImageDiff(t.Context(), "lab:before", "lab:latest")
	if err != nil {
		t.Fatal(err)
	}
	got := map[api.PackageKind][]string{}
	for _, p := range d.Packages {
		got[p.Change] = append(got[p.Change], p.Name)
	}
	for kind, want := range map[api.PackageKind]string{
		api.PackageAdded: "lib20a", api.PackageChanged: "lib05", api.PackageRebuilt: "lib07",
		api.PackageRemoved: "lib11",
	} {
		if strings.Join(got[kind], " ") != want {
			t.Errorf("%s: %v, want %s", kind, got[kind], want)
		}
	}
	if len(got[api.PackageTogether]) == 0 {
		t.Error("no unchanged package lies beside a changed one: the test shows nothing")
	}
}
