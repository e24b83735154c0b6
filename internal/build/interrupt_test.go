package build

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/build/initramfs"
	"pando/internal/build/rootfs"
	"pando/internal/steps"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/workdir"
)

// reference builds a tree of awkward files and returns the result that every other build of it must have.
func reference(t *testing.T) (tree string, want Result) {
	t.Helper()
	testkit.NeedBuilder(t)
	tree = t.TempDir()
	testkit.MakeTree(t, tree, testkit.AwkwardTree())
	return tree, mustBuild(t, testOptions(t, t.TempDir(), tree))
}

func TestCancelledAnywhere(t *testing.T) {
	tree, want := reference(t)
	for _, step := range Steps() {
		t.Run(step, func(t *testing.T) {
			opt := testOptions(t, t.TempDir(), tree)
			ctx, cancel := context.WithCancel(t.Context())
			opt.Progress = func(p steps.Progress) {
				if p.Step == step && (step != StepObjects || p.Done > p.Total/2) {
					cancel()
				}
			}
			if _, err := Image(ctx, opt); step != StepManifest && !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled in %s: %v", step, err)
			}
			versions, err := opt.Store.Versions()
			if err != nil {
				t.Fatal(err)
			}
			checkStore(t, opt.Store, len(versions))
			opt.Progress = nil
			if again := mustBuild(t, opt); again.Version != want.Version {
				t.Errorf("after it the build gives %s, not %s", again.Version, want.Version)
			}
			checkStore(t, opt.Store, 1)
		})
	}
}

// TestResumes: the raw image of an interrupted build is reused, and so are its objects.
func TestResumes(t *testing.T) {
	tree, want := reference(t)
	opt := testOptions(t, t.TempDir(), tree)
	ctx, cancel := context.WithCancel(t.Context())
	opt.Progress = func(p steps.Progress) {
		if p.Step == StepManifest {
			cancel()
		}
	}
	opt.drivers = func(ctx context.Context, _ initramfs.DriverOptions) ([]initramfs.DriverCPIO, error) {
		return nil, errors.New("stop here")
	}
	if _, err := Image(ctx, opt); err == nil || !strings.Contains(err.Error(), "stop here") {
		t.Fatal(err)
	}
	opt = testOptions(t, filepath.Dir(opt.Work), tree)
	var notes []string
	opt.Progress = func(p steps.Progress) { notes = append(notes, p.Note) }
	if got := mustBuild(t, opt); got.Version != want.Version {
		t.Errorf("resumed, it gives %s, not %s", got.Version, want.Version)
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "continuing with the raw image") {
		t.Errorf("the raw image was made again:\n%s", all)
	}

	// A tree that was changed meanwhile is not resumed.
	opt.drivers = func(context.Context, initramfs.DriverOptions) ([]initramfs.DriverCPIO, error) {
		return nil, errors.New("stop here")
	}
	if _, err := Image(t.Context(), opt); err == nil {
		t.Fatal("not stopped")
	}
	if err := os.WriteFile(filepath.Join(tree, "new"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := mustBuild(t, testOptions(t, filepath.Dir(opt.Work), tree)); got.Version == want.Version {
		t.Error("the old raw image of a changed tree was used")
	}
}

// TestKilledBuild is not a test of its own: TestKilledAnywhere runs and kills it in another process.
func TestKilledBuild(t *testing.T) {
	data, tree := os.Getenv("PANDO_TEST_DATA"), os.Getenv("PANDO_TEST_TREE")
	if data == "" {
		t.Skip("run by TestKilledAnywhere only")
	}
	opt := testOptions(t, data, tree)
	opt.Progress = func(p steps.Progress) { fmt.Println("PROGRESS", p.Step, p.Done) }
	mustBuild(t, opt)
	fmt.Println("PROGRESS", "done", 0)
}

func TestKilledAnywhere(t *testing.T) {
	tree, want := reference(t)
	for _, at := range []int{1, 4, 6, 8, 10, 12, 14, 16, 18, 20} { // reports of progress
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			data := t.TempDir()
			last := killAfter(t, data, tree, at)
			opt := testOptions(t, data, tree)
			versions, err := opt.Store.Versions()
			if err != nil {
				t.Fatal(err)
			}
			checkStore(t, opt.Store, len(versions))
			if got := mustBuild(t, opt); got.Version != want.Version {
				t.Errorf("killed at %q, then the build gives %s, not %s", last, got.Version, want.Version)
			}
			checkStore(t, opt.Store, 1)
		})
	}
}

// killAfter runs a build in another process and kills it after a number of reports. It returns the last one.
func killAfter(t *testing.T, data, tree string, reports int) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBuild$", "-test.v")
	cmd.Env = append(os.Environ(), "PANDO_TEST_DATA="+data, "PANDO_TEST_TREE="+tree)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := ""
	in := bufio.NewScanner(out)
	for in.Scan() && reports > 0 {
		if strings.HasPrefix(in.Text(), "PROGRESS") {
			last = in.Text()
			reports--
		}
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	return last
}

// TestFullDisk: the error of a full disk says what to do. Nothing is damaged, and with more room the same command
// continues.
func TestFullDisk(t *testing.T) {
	tree, want := reference(t)
	for _, c := range []struct{ storeKB, workKB int }{{100, 80000}, {3000, 80000}, {6000, 80000}, {30000, 10000}} {
		t.Run(fmt.Sprintf("store %d work %d", c.storeKB, c.workKB), func(t *testing.T) {
			data, work := tmpfs(t, c.storeKB), tmpfs(t, c.workKB)
			opt := testOptions(t, data, tree)
			opt.Work = work
			_, err := Image(t.Context(), opt)
			if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "it continues") {
				t.Fatalf("error %v, want ENOSPC and a hint", err)
			}
			checkStore(t, opt.Store, 0)
			for _, dir := range []string{data, work} {
				if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=200m"); err != nil {
					t.Fatal(err)
				}
			}
			if got := mustBuild(t, opt); got.Version != want.Version {
				t.Errorf("with more room it gives %s, not %s", got.Version, want.Version)
			}
			checkStore(t, opt.Store, 1)
		})
	}
}

// TestFullDiskInMkfs: mkfs.erofs itself finds the disk full, in the middle of a file.
func TestFullDiskInMkfs(t *testing.T) {
	tree, _ := reference(t)
	work := tmpfs(t, 10000)
	b := &rootfs.Writer{Tree: tree, Progress: func(steps.Progress) {}}
	var err error
	if b.Work, err = workdir.Open(t.Context(), work, "w", 1, func(steps.Progress) {}); err != nil {
		t.Fatal(err)
	}
	defer b.Work.Close()
	if err := workdir.FullDisk(b.RunMkfs(t.Context()), work); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v, want ENOSPC", err)
	}
}

func tmpfs(t *testing.T, kilobytes int) string {
	t.Helper()
	return testkit.MountAt(t, "-t", "tmpfs", "-o", fmt.Sprintf("size=%dk", kilobytes), "tmpfs")
}

// TestTwoBuildsAtOnce: two builds of the same directory wait for each other, as do two builds into one store.
func TestTwoBuildsAtOnce(t *testing.T) {
	tree, want := reference(t)
	data := t.TempDir()
	done := make(chan error, 2)
	for range 2 {
		opt := testOptions(t, data, tree)
		go func() {
			r, err := Image(t.Context(), opt)
			if err == nil && r.Version != want.Version {
				err = fmt.Errorf("version %s, want %s", r.Version, want.Version)
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	d, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		t.Fatal(err)
	}
	checkStore(t, d, 1)
}
