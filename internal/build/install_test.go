package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"pando/internal/build/initramfs"
	"pando/internal/build/recipe"
	"pando/internal/command"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/testkit"
	"pando/internal/workdir"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeInstaller puts a program named mmdebstrap first into PATH. It counts its runs and then runs script, with the
// target in $target.
func fakeInstaller(t *testing.T, script string) (runs func() int) {
	t.Helper()
	dir := t.TempDir()
	count := filepath.Join(dir, "runs")
	text := fmt.Sprintf(
		"#!/bin/sh -e\necho x >> %s\nfor a; do case $a in */tree.new) target=$a;; esac; done\n%s\n",
		count,
		script,
	)
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() int {
		b, _ := os.ReadFile(count)
		return len(b) / 2
	}
}

// installs returns a script that makes a tree for a build.
func installs(t *testing.T) string {
	t.Helper()
	kernel := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(kernel, testkit.FakeKernel("6.1.0-test"), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(
		`mkdir -p $target/boot $target/etc/ssh $target/usr/lib/modules/6.1.0-test/kernel $target/var/lib/apt/lists
cp %s $target/boot/vmlinuz-6.1.0-test
touch $target/usr/lib/modules/6.1.0-test/kernel/x.ko $target/etc/ssh/ssh_host_rsa_key $target/var/lib/apt/lists/x
echo 123 > $target/etc/machine-id; echo builder > $target/etc/hostname
echo "INITRD is $INITRD, TMPDIR is $TMPDIR"`,
		kernel,
	)
}

func recipeOptions(t *testing.T, data string) Options {
	t.Helper()
	opt := testOptions(t, data, "")
	var err error
	if opt.Recipe, err = recipe.Load("debian:bookworm"); err != nil {
		t.Fatal(err)
	}
	return opt
}

func TestInstallerFails(t *testing.T) {
	testkit.NeedBuilder(t)
	fakeInstaller(t, "mkdir -p $target/half; echo 'E: Unable to locate package lesss' >&2; exit 25")
	opt := recipeOptions(t, t.TempDir())
	var shown []string
	opt.Progress = func(p steps.Progress) { shown = append(shown, p.Note) }
	_, err := Image(t.Context(), opt)
	var failed *command.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "Unable to locate package lesss") {
		t.Errorf("error %v, want the end of the output", err)
	}
	if !slices.Contains(shown, "E: Unable to locate package lesss") {
		t.Errorf("the output was not shown: %q", shown)
	}
	if left, _ := filepath.Glob(filepath.Join(opt.Work, "*", "tree*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestInstallerIsMissing(t *testing.T) {
	testkit.NeedBuilder(t)
	t.Setenv("PATH", t.TempDir())
	_, err := Image(t.Context(), recipeOptions(t, t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), "install mmdebstrap") {
		t.Errorf("error %v", err)
	}
}

// TestInstalledTreeIsUsedAgain: the next build reuses the installed tree. If the archive cannot be reached, the tree
// counts as current for a day.
func TestInstalledTreeIsUsedAgain(t *testing.T) {
	testkit.NeedBuilder(t)
	runs := fakeInstaller(t, installs(t))
	opt := recipeOptions(t, t.TempDir())
	opt.Recipe.Customize = nil
	fails := opt
	fails.drivers = func(context.Context, initramfs.DriverOptions) ([]initramfs.DriverCPIO, error) {
		return nil, errors.New("stop here")
	}
	if _, err := Image(t.Context(), fails); err == nil || runs() != 1 {
		t.Fatalf("error %v after %d runs", err, runs())
	}
	trees, err := filepath.Glob(filepath.Join(opt.Work, workdir.LayerPrefix+"*", "tree"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("the base is %q, %v", trees, err)
	}
	tree := trees[0]
	for _, gone := range []string{"etc/ssh/ssh_host_rsa_key", "etc/hostname", "var/lib/apt/lists/x"} {
		if systree.Exists(filepath.Join(tree, gone)) {
			t.Errorf("%s is in the tree", gone)
		}
	}
	if id, err := os.ReadFile(filepath.Join(tree, "etc/machine-id")); err != nil || len(id) > 0 {
		t.Errorf("machine-id %q, %v", id, err)
	}

	old := fails
	old.Now = func() time.Time { return time.Now().Add(2 * treeMaxAge) }
	if _, err := Image(t.Context(), old); err == nil || runs() != 2 {
		t.Errorf("an old tree: error %v after %d runs, want 2", err, runs())
	}
	fresh := fails
	fresh.FreshTree = true
	if _, err := Image(t.Context(), fresh); err == nil || runs() != 3 {
		t.Errorf("a fresh tree: error %v after %d runs, want 3", err, runs())
	}
	mustBuild(t, opt)
	if runs() != 3 {
		t.Errorf("%d runs of the installer, want 3", runs())
	}
	left, err := os.ReadDir(opt.Work)
	if err != nil || len(left) != 1 || !strings.HasPrefix(left[0].Name(), workdir.LayerPrefix) {
		t.Errorf("left after success: %v, %v", left, err)
	}
}

func TestInstallerIsStopped(t *testing.T) {
	testkit.NeedBuilder(t)
	fakeInstaller(t, "mkdir -p $target/half; echo started; sleep 1000 & wait")
	opt := recipeOptions(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	opt.Progress = func(p steps.Progress) {
		if p.Note == "started" {
			cancel()
		}
	}
	begin := time.Now()
	if _, err := Image(ctx, opt); !errors.Is(err, context.Canceled) || time.Since(begin) > 9*time.Second {
		t.Errorf("error %v after %s", err, time.Since(begin))
	}
}
