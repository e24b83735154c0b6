package rootdir

import (
	"os"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/fleet"
)

func testRoot(t *testing.T) (string, *Dir) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return dir, r
}

func TestPutFiles(t *testing.T) {
	dir, r := testRoot(t)
	link := fleet.File{Path: "/etc/mtab", Target: "/proc/mounts", UID: os.Getuid(), GID: os.Getgid()}
	one, two := nodekit.File("/etc/ssh/key", "one"), nodekit.File("/etc/ssh/key", "two")
	for _, f := range []fleet.File{one, two, link, link} {
		if err := r.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "etc/ssh/key"))
	if err != nil || string(data) != "two" {
		t.Errorf("key is %q, %v", data, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "etc/ssh/key")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "etc/mtab")); err != nil || target != "/proc/mounts" {
		t.Errorf("link to %q, %v", target, err)
	}
}

// The links of an image are absolute and relative to the image's root. None may lead a write out of it.
func TestPutStaysInside(t *testing.T) {
	dir, r := testRoot(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := os.WriteFile(outside, []byte("safe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"abs":      "/etc",
		"up":       "../..",
		"far":      filepath.Dir(outside),
		"resolved": outside, // as /etc/resolv.conf often is
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, at := range map[string]string{
		"/abs/hostname": "etc/hostname",
		"/up/outside":   "outside",
		"/resolved":     "resolved",
	} {
		if err := r.Put(nodekit.File(path, "new")); err != nil {
			t.Errorf("put %s: %v", path, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, at)); err != nil || string(data) != "new" {
			t.Errorf("%s holds %q, %v", at, data, err)
		}
	}
	_ = r.Put(nodekit.File("/far/outside", "new")) // the link points into a directory that the root does not have
	if data, err := os.ReadFile(outside); err != nil || string(data) != "safe" {
		t.Errorf("a file outside was written: %q, %v", data, err)
	}
}

func TestPutRefuses(t *testing.T) {
	_, r := testRoot(t)
	for _, path := range []string{"", "/", "etc/x", "/etc/../x", "/etc/x/"} {
		if err := r.Put(nodekit.File(path, "")); err == nil {
			t.Errorf("path %q was taken", path)
		}
	}
}

func TestEdit(t *testing.T) {
	dir, r := testRoot(t)
	path := filepath.Join(dir, "shadow")
	if err := os.WriteFile(path, []byte("root:x:\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := r.Edit("/shadow", func(s string) string { return strings.ReplaceAll(s, "x", "*") })
	if err != nil || !changed {
		t.Errorf("edit: %v, %v", changed, err)
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "root:*:\n" {
		t.Errorf("file is %q, %v", data, err)
	}
	if changed, err := r.Edit("/shadow", func(s string) string { return s }); changed || err != nil {
		t.Errorf("an edit that changes nothing: %v, %v", changed, err)
	}
	if changed, err := r.Edit("/missing", func(string) string { return "x" }); changed || err != nil {
		t.Errorf("an edit of a missing file: %v, %v", changed, err)
	}
}

// Names of owners are looked up in the root.
func TestOwner(t *testing.T) {
	_, r := testRoot(t)
	for _, f := range []fleet.File{nodekit.File("/etc/passwd", "root:x:0:0::/:\nslurm:x:64030:64031::/:/bin/false\n"),
		nodekit.File("/etc/group", "root:x:0:\nadm:x:4:a,b\n")} {
		if err := r.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string][2]int{"slurm": {64030, 64031}, "slurm:adm": {64030, 4}, ":adm": {0, 4},
		"slurm:": {64030, 64031}, "7:8": {7, 8}, "root": {0, 0}} {
		uid, gid, err := r.owner(text)
		if err != nil || uid != want[0] || gid != want[1] {
			t.Errorf("%q: %d:%d, %v; want %v", text, uid, gid, err, want)
		}
	}
	for _, text := range []string{"nobody", "slurm:slurm", "slur"} {
		if _, _, err := r.owner(text); err == nil || !strings.Contains(err.Error(), "the image's /etc/") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
