package build

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"pando/internal/build/initramfs"
	"pando/internal/build/recipe"
	"pando/internal/testkit"
	"pando/internal/workdir"
	"strings"
	"testing"
)

// TestRevision compares how a tree is installed and tidied, and which drivers it gives, with the record of this
// revision. TestSameTreeSameDigest compares the later steps.
func TestRevision(t *testing.T) {
	const golden = "testdata/revision.golden"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got := describeRevision(t)
	first := fmt.Sprintf("revision %d\n", Revision)
	if *update && !bytes.HasPrefix(want, []byte(first)) { // what a revision does, it does for ever
		want = []byte(got)
		if err := os.WriteFile(golden, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got != string(want) {
		t.Errorf("what is built has changed: raise Revision and run with -update\ngot:\n%s\nwant:\n%s", got, want)
	}
}

func describeRevision(t *testing.T) string {
	t.Helper()
	text := `{suite: bookworm, architecture: amd64, packages: [b, a], files: [{path: /etc/a, content: x}], customize: ["true"]}`
	r, err := recipe.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	b := &recipe.Maker{Recipe: r, Work: &workdir.Dir{Path: work}}
	args, err := b.MmdebstrapArgs(r, "")
	if err != nil {
		t.Fatal(err)
	}
	drivers, err := initramfs.Drivers(
		t.Context(),
		initramfs.DriverOptions{Tree: testkit.FakeTree(t), Release: testkit.TestRelease},
	)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "revision %d\n", Revision)
	fmt.Fprintf(&out, "install: %s\n", strings.ReplaceAll(strings.Join(args, "\ninstall: "), work, "WORK"))
	fmt.Fprintf(&out, "remove: %s\n", strings.Join(recipe.Untidy(), "\nremove: "))
	for _, l := range initramfs.DriverLists("", "") {
		fmt.Fprintf(&out, "drivers %s: %s; %s\n", l.Name, strings.Join(l.Always, " "), strings.Join(l.Devices, " "))
	}
	for _, d := range drivers {
		fmt.Fprintf(&out, "cpio %s: %x\n", d.Name, sha256.Sum256(d.Data))
	}
	return out.String()
}

// TestSource: the source of a version depends on everything that decides its content, and on nothing else.
func TestSource(t *testing.T) {
	source := func(text string, change func(*Options)) string {
		t.Helper()
		r, err := recipe.Parse("lab.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Recipe: r}
		change(&o)
		return o.Asked()
	}
	const text = "from: debian:bookworm\n"
	as := func(*Options) {}
	plain := source(text, as)
	for what, same := range map[string]string{
		"a comment":        source("# mine\n"+text, as),
		"another name":     source(text, func(o *Options) { o.Recipe.Name = "debian:bookworm" }),
		"another release":  source(text, func(o *Options) { o.Builder = "v2-dirty" }),
		"the default size": source(text, func(o *Options) { o.ChunkSize = 64 << 10 }),
	} {
		if same != plain {
			t.Errorf("%s makes another source", what)
		}
	}
	for what, other := range map[string]string{
		"a package":           source(text+"packages: [nano]", as),
		"a suite":             source(text+"suite: trixie", as),
		"an argument":         source(text+"command_line: [quiet]", as),
		"a file":              source(text+"files: [{path: /a, content: x}]", as),
		"a command":           source(text+`customize: ["true"]`, as),
		"a mirror":            source(text+"mirrors: [http://mirror.example/debian]", as),
		"an argument by flag": source(text, func(o *Options) { o.CommandLine = []string{"quiet"} }),
		"firmware":            source(text, func(o *Options) { o.Firmware = "/srv/firmware" }),
		"a chunk size":        source(text, func(o *Options) { o.ChunkSize = 32 << 10 }),
		"another built-in":    source("from: debian:trixie\n", as),
		"a changed built-in":  source(text, func(o *Options) { o.Recipe.Packages = o.Recipe.Packages[1:] }),
	} {
		if other == plain {
			t.Errorf("%s makes no other source", what)
		}
	}
	if s := (Options{FromDir: "/srv/tree"}).Asked(); s != "" {
		t.Errorf("a directory has the source %q", s)
	}
}
