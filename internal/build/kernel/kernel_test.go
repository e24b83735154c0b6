package kernel

import (
	"errors"
	"os"
	"pando/internal/testkit"
	"path/filepath"
	"strings"
	"testing"
)

func TestKernelOf(t *testing.T) {
	type files map[string][]byte
	module := []byte("m")
	short := testkit.FakeKernel("6.1.0-1")[:20000]
	for name, c := range map[string]struct {
		files   files
		release string
		path    string
		missing string
	}{
		"debian": {files{
			"boot/vmlinuz-6.1.0-9-amd64":              testkit.FakeKernel("6.1.0-9-amd64"),
			"usr/lib/modules/6.1.0-9-amd64/kernel/x":  module,
			"boot/vmlinuz-6.1.0-10-amd64":             testkit.FakeKernel("6.1.0-10-amd64"),
			"usr/lib/modules/6.1.0-10-amd64/kernel/x": module,
		}, "6.1.0-10-amd64", "boot/vmlinuz-6.1.0-10-amd64", ""},
		"fedora": {files{
			"usr/lib/modules/6.8.5-301.fc40/vmlinuz":  testkit.FakeKernel("6.8.5-301.fc40"),
			"usr/lib/modules/6.8.5-301.fc40/kernel/x": module,
		}, "6.8.5-301.fc40", "usr/lib/modules/6.8.5-301.fc40/vmlinuz", ""},
		"newest has no modules": {files{
			"boot/vmlinuz-6.1.0-1": testkit.FakeKernel("6.1.0-1"), "usr/lib/modules/6.1.0-1/kernel/x": module,
			"boot/vmlinuz-7.0.0": testkit.FakeKernel("7.0.0"),
		}, "6.1.0-1", "boot/vmlinuz-6.1.0-1", ""},
		"nothing":   {files{"etc/hostname": module}, "", "", "linux-image-amd64"},
		"container": {files{".dockerenv": nil}, "", "", "container"},
		"no modules": {files{"boot/vmlinuz-6.1.0-1": testkit.FakeKernel("6.1.0-1")}, "", "", "no modules in " +
			"/usr/lib/modules/6.1.0-1"},
		"only modules": {files{"usr/lib/modules/6.1.0-1/kernel/x": module}, "", "", "neither /boot/vmlinuz-*"},
		"cut off": {files{"boot/vmlinuz-6.1.0-1": short, "lib/modules/6.1.0-1/kernel/x": module}, "", "",
			"cut off"},
		"no kernel": {files{"boot/vmlinuz-6.1.0-1": []byte("hello"), "lib/modules/6.1.0-1/kernel/x": module}, "", "",
			"not a kernel image"},
		"other release": {files{"boot/vmlinuz-6.1.0-2": testkit.FakeKernel("6.1.0-1"),
			"lib/modules/6.1.0-2/kernel/x": module}, "", "",
			"says it is release 6.1.0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := t.TempDir()
			for file, data := range c.files {
				file = filepath.Join(tree, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			k, err := Find(tree)
			var missing *MissingError
			switch {
			case c.missing != "" && (!errors.As(err, &missing) || !strings.Contains(err.Error(), c.missing)):
				t.Errorf("error %v, want one with %q", err, c.missing)
			case c.missing == "" && (err != nil || k.Release != c.release || k.Path != c.path ||
				k.Architecture != "amd64"):
				t.Errorf("kernel %+v, %v", k, err)
			}
		})
	}
}

// A link in a tree does not make the builder read the machine's own files.
func TestKernelOfStaysInTheTree(t *testing.T) {
	tree, outside := t.TempDir(), filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(outside, testkit.FakeKernel("6.1.0-1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(tree, "boot"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(tree, "boot/vmlinuz-6.1.0-1")); err != nil {
		t.Fatal(err)
	}
	if k, err := Find(tree); err == nil {
		t.Errorf("found %+v", k)
	}
}
