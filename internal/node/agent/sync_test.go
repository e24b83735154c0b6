package agent

import (
	"os"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// A file that is as it should be is not written, and its command does not run. A changed file is restored. A file
// that cannot be written does not stop the others. A dry run writes nothing.
func TestSyncFiles(t *testing.T) {
	dir, r := agentRoot(t)
	if err := os.MkdirAll(filepath.Join(dir, "etc/dir/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	same, other := nodekit.File("/etc/same", "a"), nodekit.File("/etc/other", "b")
	mode, fresh := nodekit.File("/etc/mode", "c"), nodekit.File("/etc/new/fresh", "d")
	blocked := nodekit.File("/etc/dir", "e")
	for _, f := range []fleet.File{same, nodekit.File("/etc/other", "B"), mode} {
		if err := r.Put(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "etc/mode"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", filepath.Join(dir, "etc/link")); err != nil {
		t.Fatal(err)
	}
	link := nodekit.File("/etc/link", "b")
	for i, f := range []*fleet.File{&same, &other, &mode, &fresh, &blocked, &link} {
		f.Run = string(rune('a' + i))
	}
	all := []fleet.File{same, other, mode, fresh, blocked, link}
	text := func(list []api.SyncedFile) string {
		var out []string
		for _, s := range list {
			word := s.Path + "=" + s.Run
			if s.New {
				word += "+"
			}
			if s.Error != "" {
				word += "!"
			}
			out = append(out, word)
		}
		return strings.Join(out, " ")
	}
	if got, want := text(putChanged(r, all, true)), "/etc/other=b /etc/mode=c /etc/new/fresh=d+ /etc/dir=e "+
		"/etc/link=f"; got != want {
		t.Errorf("dry run: %s, want %s", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "etc/other")); err != nil || string(b) != "B" {
		t.Errorf("a dry run wrote %q, %v", b, err)
	}
	if got, want := text(putChanged(r, all, false)), "/etc/other=b /etc/mode=c /etc/new/fresh=d+ /etc/dir=! "+
		"/etc/link=f"; got != want {
		t.Errorf("sync: %s, want %s", got, want)
	}
	if got, want := text(putChanged(r, all, false)), "/etc/dir=!"; got != want {
		t.Errorf("again: %s, want %s", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "etc/link")); err != nil || string(b) != "b" {
		t.Errorf("the link's place has %q, %v", b, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "etc/.pando-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left beside: %v, %v", left, err)
	}
}

// A command of several files runs once, after all of them are written. A failure is reported with the command's
// output.
func TestSyncCommands(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	once := "echo once >> " + log
	files := []api.SyncedFile{
		{Path: "/a", Run: once},
		{Path: "/b", Run: once},
		{Path: "/c", Run: "echo why; exit 3"},
		{Path: "/d"},
	}
	runAll(t.Context(), files)
	if b, err := os.ReadFile(log); err != nil || string(b) != "once\n" {
		t.Errorf("%q, %v", b, err)
	}
	var failed []string
	for _, f := range files {
		failed = append(failed, f.Failed)
	}
	if want := []string{"", "", "exit status 3: why", ""}; !slices.Equal(failed, want) {
		t.Errorf("failures %q, want %q", failed, want)
	}
	if got := runShell(t.Context(), "yes | head -c 5000; exit 1"); len(got) > maxOutput+40 {
		t.Errorf("%d bytes of output are told", len(got))
	}
}

// agentRoot is an empty root.
func agentRoot(t *testing.T) (string, *rootdir.Dir) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := rootdir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return dir, r
}
