package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/build/initramfs"
	"pando/internal/build/recipe"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/mount"
	"pando/internal/systree"
	"pando/internal/testkit"
)

func TestMain(m *testing.M) {
	if mount.IsInside() {
		os.Exit(mount.Inside())
	}
	os.Exit(m.Run())
}

// programs are the programs that the tree of these tests can run.
var programs = []string{"sh", "cat", "mkdir", "rm", "touch", "ln", "mv", "chmod", "sleep", "id", "env"}

// runnableTree is the tree of awkward files with a shell and the usual directories of a system.
func runnableTree(t *testing.T) string {
	t.Helper()
	testkit.NeedBuilder(t)
	tree := t.TempDir()
	var nodes []testkit.Node
	for _, d := range []string{"dev", "proc", "run", "sys", "root", "usr/sbin", "var/lib/apt/lists", "var/log/apt"} {
		nodes = append(nodes, testkit.Node{Path: d, Mode: unix.S_IFDIR | 0o755})
	}
	testkit.MakeTree(t, tree, append(testkit.AwkwardTree(), nodes...))
	const copyOne = `set -e; p=$(command -v "$1"); mkdir -p "$2/bin"; cp -L "$p" "$2/bin/$1"
		ldd "$p" | grep -o '/[^ ]*' | while read -r l; do mkdir -p "$2${l%/*}"; cp -L "$l" "$2$l"; done; test -e "$2/etc" || mkdir "$2/etc"`
	for _, p := range programs {
		if out, err := exec.Command("sh", "-c", copyOne, "sh", p, tree).CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v: %s", p, err, out)
		}
	}
	return tree
}

// changeOptions returns options that change a version by a script.
func changeOptions(t *testing.T, data string, of Result, script string) (ChangeOptions, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	build := testOptions(t, data, "")
	build.CommandLine = nil
	return ChangeOptions{
		Image:   "lab",
		Version: of.Version,
		Build:   build,
		Command: mount.Command{Args: []string{"sh", "-euc", script},
			Env: []string{"PATH=/bin"}, Resolver: []byte("nameserver 192.0.2.7\n"), Stdout: &out, Stderr: &out},
	}, &out
}

// mustChange changes a version by a script and checks the store.
func mustChange(t *testing.T, data string, of Result, script string) Result {
	t.Helper()
	opt, out := changeOptions(t, data, of, script)
	r, err := Change(t.Context(), opt)
	if err != nil {
		t.Fatalf("change: %v: %s", err, out)
	}
	if left, _ := os.ReadDir(opt.Build.Work); len(left) > 0 {
		t.Errorf("left in the work directory: %v", left)
	}
	return r
}

// rootOf describes the root file system of a version.
func rootOf(t *testing.T, opt Options, m image.Manifest) []string {
	t.Helper()
	return testkit.Describe(t, testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Store, m)))
}

// TestChange: the new version has what the command changed and nothing else; the old version does not change.
func TestChange(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	opt := testOptions(t, data, tree)
	opt.CommandLine = []string{"quiet"}
	first := mustBuild(t, opt)

	second := mustChange(t, data, first, `
		test "$(cat /etc/resolv.conf)" = "nameserver 192.0.2.7"
		test -s /boot/vmlinuz-6.1.0-test
		echo new > /etc/new; rm /empty; mv /opt /moved; chmod 700 /secret
		echo lists > /var/lib/apt/lists/x; echo log > /var/log/apt/y; echo tmp > /tmp/z; echo run > /run/r; ln -s /nowhere /etc/link`)
	checkStore(t, opt.Store, 2)
	if second.Version == first.Version || second.Manifest.Kernel != first.Manifest.Kernel ||
		!slices.Equal(second.Manifest.CommandLine, first.Manifest.CommandLine) {
		t.Errorf("the manifest is %+v, before it was %+v", second.Manifest, first.Manifest)
	}
	if p := second.Provenance; p.Parent != first.Version || len(p.Command) != 3 || p.FromDir != "" {
		t.Errorf("provenance: parent %q, command %q, directory %q", p.Parent, p.Command, p.FromDir)
	}
	root := testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Store, second.Manifest))
	for path, want := range map[string]bool{"etc/new": true, "empty": false, "opt": false, "moved/boot/kept": true,
		"etc/link": true, "etc/resolv.conf": false,
		"var/lib/apt/lists/x": false, "var/log/apt/y": false, "tmp/z": false, "run/r": false,
		"usr/sbin/policy-rc.d": false} {
		if systree.Exists(filepath.Join(root, path)) != want {
			t.Errorf("%s is there: %t, want %t", path, !want, want)
		}
	}
}

// TestChangeOfNothing: a command that changes nothing gives the same version, with the same links, attributes, times
// and holes.
func TestChangeOfNothing(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	opt := testOptions(t, data, tree)
	first := mustBuild(t, opt)
	if again := mustChange(t, data, first, "true"); again.Version != first.Version || !again.Existed {
		t.Errorf("version %s, before %s", again.Version, first.Version)
		testkit.CompareTrees(t, rootOf(t, opt, again.Manifest), rootOf(t, opt, first.Manifest))
	}
	v, err := opt.Store.GetVersion(first.Version)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := image.DecodeProvenance(v.Provenance); err != nil || p.Parent != "" || p.FromDir != tree {
		t.Errorf("its provenance now says: parent %q, directory %q, %v", p.Parent, p.FromDir, err)
	}
}

// TestChangeKeepsTheFormat: which formats a kernel can read may be known only from /boot, which a version does not
// have. A changed copy, or a recipe with a base, keeps the format of the version.
func TestChangeKeepsTheFormat(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "boot/config-6.1.0-test"), []byte("CONFIG_SQUASHFS=y\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(tree, "usr/lib/modules/6.1.0-test/kernel/fs")); err != nil {
		t.Fatal(err)
	}
	opt := testOptions(t, data, tree)
	first := mustBuild(t, opt)
	second := mustChange(t, data, first, "echo new > /etc/new")
	r, err := recipe.Parse("lab.yaml", []byte("from: lab\ncustomize: ['echo newer > /etc/new']\n"))
	if err != nil {
		t.Fatal(err)
	}
	from := testOptions(t, data, "")
	from.Recipe = r.WithBase(second.Version)
	third := mustBuild(t, from)
	for i, v := range []Result{first, second, third} {
		if v.Manifest.Root.FileSystem != image.Squashfs {
			t.Errorf("version %d is %s", i+1, v.Manifest.Root.FileSystem)
		}
	}
}

// TestChangeKeepsTheDrivers: that a kernel unpacks its modules itself is also known only from /boot. A copy has the
// same drivers as its version.
func TestChangeKeepsTheDrivers(t *testing.T) {
	for name, kept := range map[string]bool{"r8169.ko.xz": true, "r8169.ko": false} {
		tree, data := runnableTree(t), t.TempDir()
		archive, err := initramfs.CompressCPIO([]byte("/lib/modules/6.1.0-test/" + name))
		if err != nil {
			t.Fatal(err)
		}
		opt := testOptions(t, data, tree)
		opt.drivers = func(context.Context, initramfs.DriverOptions) ([]initramfs.DriverCPIO, error) {
			return []initramfs.DriverCPIO{{Name: "base", Data: archive}}, nil
		}
		first := mustBuild(t, opt)
		change, _ := changeOptions(t, data, first, "echo new > /etc/new")
		var told initramfs.DriverOptions
		change.Build.drivers = func(_ context.Context, o initramfs.DriverOptions) ([]initramfs.DriverCPIO, error) {
			told = o
			return opt.drivers(t.Context(), o)
		}
		second, err := Change(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		if told.KeepXZ != kept || !reflect.DeepEqual(first.Manifest.Drivers, second.Manifest.Drivers) {
			t.Errorf(
				"%s: told %t; drivers %+v, before %+v",
				name,
				told.KeepXZ,
				second.Manifest.Drivers,
				first.Manifest.Drivers,
			)
		}
	}
}

// TestChangeFails: a command that fails makes no version, unless Keep says so.
func TestChangeFails(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	first := mustBuild(t, testOptions(t, data, tree))
	opt, _ := changeOptions(t, data, first, "echo x > /etc/new; exit 3")
	_, err := Change(t.Context(), opt)
	var exit *mount.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 {
		t.Fatalf("error %v, want one with status 3", err)
	}
	checkStore(t, opt.Build.Store, 1)
	if left, _ := os.ReadDir(opt.Build.Work); len(left) > 0 {
		t.Errorf("left in the work directory: %v", left)
	}
	asked := 0
	opt.Keep = func(status int) bool { asked = status; return true }
	if r, err := Change(t.Context(), opt); err != nil || r.Version == first.Version || asked != 3 {
		t.Errorf("kept: version %s, %v, asked for status %d", r.Version, err, asked)
	}
	checkStore(t, opt.Build.Store, 2)
}

// TestChangeThatCannotBeStored: a changed copy that could not be stored is kept, and the next call can resume with
// it.
func TestChangeThatCannotBeStored(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	first := mustBuild(t, testOptions(t, data, tree))
	opt, _ := changeOptions(t, data, first, "echo one > /etc/one; rm /boot/vmlinuz-*")
	if _, err := Change(t.Context(), opt); err == nil {
		t.Fatal("a tree without a kernel is a version")
	}
	var unfinished *UnfinishedError
	if _, err := Change(t.Context(), opt); !errors.As(err, &unfinished) {
		t.Fatalf("error %v, want that there is an unfinished change", err)
	}
	next, _ := changeOptions(t, data, first, `test "$(cat /etc/one)" = one; echo two > /etc/two`)
	next.Resume = true
	r, err := Change(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	root := testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Build.Store, r.Manifest))
	for _, name := range []string{"etc/one", "etc/two"} {
		if !systree.Exists(filepath.Join(root, name)) {
			t.Errorf("%s is not there", name)
		}
	}
	if _, err := Change(t.Context(), next); err == nil || !strings.Contains(err.Error(), "no earlier change") {
		t.Errorf("error %v, want that there is nothing to go on with", err)
	}
}

// TestKilledChange is the body of the process that TestChangeIsKilled kills.
func TestKilledChange(t *testing.T) {
	data, version := os.Getenv("PANDO_TEST_DATA"), os.Getenv("PANDO_TEST_VERSION")
	if data == "" || version == "" {
		t.Skip("run by TestChangeIsKilled only")
	}
	if err := mount.Private(); err != nil {
		t.Fatal(err)
	}
	of := Result{Version: fleet.Digest(version)}
	opt, _ := changeOptions(t, data, of, "echo lost > /etc/lost; echo STARTED; sleep 1000")
	opt.Command.Stdout = os.Stdout
	_, err := Change(t.Context(), opt)
	fmt.Println(err)
}

// TestChangeIsKilled: a killed change leaves no mounts and no processes. The store is good, and the next change
// starts from the version.
func TestChangeIsKilled(t *testing.T) {
	tree, data := runnableTree(t), t.TempDir()
	first := mustBuild(t, testOptions(t, data, tree))
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledChange$", "-test.v")
	cmd.Env = append(os.Environ(), "PANDO_TEST_DATA="+data, "PANDO_TEST_VERSION="+string(first.Version))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := make([]byte, 1<<10)
	for n := 0; !bytes.Contains(output[:n], []byte("STARTED")); {
		more, err := out.Read(output[n:])
		if n += more; err != nil {
			t.Fatalf("it never started: %s", output[:n])
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until nobody has the pipe any more: all inside are dead, too
		_, err = out.Read(output)
	}
	_ = cmd.Wait() // killed
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(data)) {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
	checkStore(t, testOptions(t, data, "").Store, 1)
	if r := mustChange(t, data, first, "test ! -e /etc/lost"); r.Version != first.Version {
		t.Errorf("after it, version %s, want %s", r.Version, first.Version)
	}
}
