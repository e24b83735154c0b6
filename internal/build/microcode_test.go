package build

import (
	"bytes"
	"os"
	"os/exec"
	"pando/internal/testkit"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMicrocodeComesFirst: the updates of a tree are in one part before all others, where the kernel looks for them.
func TestMicrocodeComesFirst(t *testing.T) {
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	file := func(path, data string) testkit.Node {
		return testkit.Node{Path: "usr/lib/firmware/" + path, Mode: unix.S_IFREG | 0o644, Data: []byte(data)}
	}
	testkit.MakeTree(
		t,
		tree,
		append(
			testkit.AwkwardTree(),
			file("intel-ucode/06-55-04", "second"),
			file("intel-ucode/06-4f-01.initramfs", "first "),
			file("amd-ucode/microcode_amd.bin", "amd"),
			file("amd-ucode/microcode_amd.bin.asc", "a signature"),
		),
	)
	opt := testOptions(t, t.TempDir(), tree)
	r := mustBuild(t, opt)
	d := r.Manifest.Drivers[0]
	if d.Name != "microcode" || d.InsteadOf != "" || len(r.Manifest.Drivers) != 2 {
		t.Fatalf("parts are %+v", r.Manifest.Drivers)
	}
	data, err := opt.Store.Get(t.Context(), d.Object)
	if err != nil || len(data)%4 != 0 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	to := t.TempDir()
	c := exec.Command("cpio", "--extract", "--quiet", "--make-directories")
	c.Dir, c.Stdin = to, bytes.NewReader(data)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"GenuineIntel.bin": "first second", "AuthenticAMD.bin": "amd"} {
		if got, err := os.ReadFile(filepath.Join(to, "kernel/x86/microcode", name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, want %q (%v)", name, got, want, err)
		}
	}
}
