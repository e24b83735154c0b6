package build

import (
	"os"
	"pando/internal/build/recipe"
	"pando/internal/systree"
	"pando/internal/testkit"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRecipeFromAVersion: a recipe with a base version changes a copy of it by files and commands, and keeps its
// kernel and arguments. Building it twice gives the same version.
func TestRecipeFromAVersion(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	opt := testOptions(t, data, tree)
	opt.CommandLine = []string{"quiet"}
	first := mustBuild(t, opt)
	const text = `
from: lab:stable
files: [{path: /etc/motd, content: "from a recipe\n", mode: "0600"}]
customize: ["test -s /boot/vmlinuz-6.1.0-test; test -c /dev/null; cat /etc/motd > /etc/copy; touch /tmp/x; touch -d @1700000000 /etc/copy /etc/motd /etc /"]
command_line: [splash]
`
	r, err := recipe.Parse("lab.yaml", []byte(text))
	if err != nil || r.Base != "lab:stable" {
		t.Fatalf("base %q, %v", r.Base, err)
	}
	from := testOptions(t, data, "")
	from.CommandLine, from.Recipe = nil, r
	if _, err := Image(t.Context(), from); err == nil || !strings.Contains(err.Error(), "append its digest") {
		t.Errorf("a base without a digest: %v", err)
	}
	from.Recipe = r.WithBase(first.Version)
	second := mustBuild(t, from)
	if want := []string{"quiet", "splash"}; !slices.Equal(second.Manifest.CommandLine, want) ||
		second.Manifest.Kernel != first.Manifest.Kernel {
		t.Errorf("manifest %+v", second.Manifest)
	}
	if p := second.Provenance; p.Parent != first.Version || p.Recipe != "lab.yaml" || p.Source == "" {
		t.Errorf("provenance: parent %q, recipe %q, source %q", p.Parent, p.Recipe, p.Source)
	}
	root := testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Store, second.Manifest))
	for _, name := range []string{"etc/motd", "etc/copy"} {
		if b, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(b) != "from a recipe\n" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if systree.Exists(filepath.Join(root, "tmp/x")) || systree.Exists(filepath.Join(root, "etc/resolv.conf")) {
		t.Error("what a command had around it is in the image")
	}
	time.Sleep(
		time.Until(time.Now().Truncate(time.Second).Add(time.Second)),
	) // what has the time of the build would be another file now
	if again := mustBuild(t, from); again.Version != second.Version {
		t.Errorf("a second time, version %s, not %s", again.Version, second.Version)
		testkit.CompareTrees(t, rootOf(t, opt, again.Manifest), rootOf(t, opt, second.Manifest))
	}
	checkStore(t, opt.Store, 2)
	if left, _ := os.ReadDir(opt.Work); len(left) > 0 {
		t.Errorf("left in the work directory: %v", left)
	}
}

func TestRecipeFromAVersionFails(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	first := mustBuild(t, testOptions(t, data, tree))
	for text, want := range map[string]string{
		"customize: [echo why >&2; exit 4]": "exit status 4; the end of its output:\n    why",
		"packages: [nano]":                  "has no apt-get",
		"architecture: arm64":               "is for amd64, the recipe for arm64",
	} {
		r, err := recipe.Parse("lab.yaml", []byte("from: lab\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		opt := testOptions(t, data, "")
		opt.Recipe = r.WithBase(first.Version)
		if _, err := Image(t.Context(), opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
		checkStore(t, opt.Store, 1)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), data) {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}
}
