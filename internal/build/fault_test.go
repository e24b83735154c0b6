package build

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/store"
	"pando/internal/testkit"
)

// twoTrees returns a tree and the same tree after a change.
func twoTrees(t *testing.T) (first, second string) {
	t.Helper()
	testkit.NeedBuilder(t)
	for n, tree := range []*string{&first, &second} {
		*tree = t.TempDir()
		nodes := testkit.AwkwardTree()[:5]
		for name, text := range map[string]string{"always": strings.Repeat("always the same\n", 9000),
			"changes": strings.Repeat(fmt.Sprint("number ", n), 9000)} {
			nodes = append(nodes, testkit.Node{Path: name, Mode: unix.S_IFREG | 0o644, Data: []byte(text)})
		}
		testkit.MakeTree(t, *tree, nodes)
	}
	return first, second
}

// faulty returns options with a faulty disk below the store.
func faulty(t *testing.T, data, tree string, disk store.Disk) Options {
	t.Helper()
	opt := testOptions(t, data, tree)
	d, err := store.OpenDirOn(filepath.Join(data, "store"), disk)
	if err != nil {
		t.Fatal(err)
	}
	opt.Store = d
	return opt
}

// afterwards opens a store after a fault, as the next process would find it.
func afterwards(t *testing.T, data string, disk *testkit.Disk, fault testkit.Fault, seed uint64) *store.Dir {
	t.Helper()
	if fault == testkit.Cut {
		if err := disk.PowerCut(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatal(err)
		}
	}
	d, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := d.TryLock("test")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	return d
}

// expected reports whether an error is the expected one of a fault.
func expected(fault testkit.Fault, err error) bool {
	return errors.Is(
		err,
		map[testkit.Fault]error{testkit.Refuse: unix.EIO, testkit.Full: unix.ENOSPC, testkit.Kill: testkit.ErrKilled,
			testkit.Cut: testkit.ErrKilled}[fault],
	)
}

var faults = []testkit.Fault{testkit.Refuse, testkit.Full, testkit.Kill, testkit.Cut}

// TestBuildWithAFaultAnywhere: if any operation of a build on the store fails, the store and the earlier version stay
// good, and the next build gives the usual result.
func TestBuildWithAFaultAnywhere(t *testing.T) {
	first, second := twoTrees(t)
	data := t.TempDir()
	before := mustBuild(t, testOptions(t, data, first))
	counting := testkit.NewDisk("", 0)
	want := mustBuild(t, faulty(t, copyOf(t, data), second, counting))
	if n := counting.Operations(); n < 20 {
		t.Fatalf("a build has only %d operations", n)
	}
	for _, fault := range faults {
		failed := 0
		every := 3
		if fault == testkit.Cut || os.Getenv("PANDO_FULL") == "1" {
			every = 1
		}
		for at := 1; at <= counting.Operations(); at += every {
			data, disk := copyOf(t, data), testkit.NewDisk(fault, at)
			_, err := Image(t.Context(), faulty(t, data, second, disk))
			if err != nil && !expected(fault, err) {
				t.Errorf("%s at %d: %v", fault, at, err)
			}
			if err != nil {
				failed++
			}
			d := afterwards(t, data, disk, fault, uint64(at))
			versions, err := d.Versions()
			if err != nil || len(versions) == 0 {
				t.Fatal(versions, err)
			}
			checkStore(t, d, len(versions))
			if _, err := d.GetVersion(before.Version); err != nil {
				t.Errorf("%s at %d: the version before: %v", fault, at, err)
			}
			t.Logf("%s at operation %d of %d", fault, at, counting.Operations())
			if got := mustBuild(t, testOptions(t, data, second)); got.Version != want.Version {
				t.Errorf("%s at %d, then the build gives %s, not %s", fault, at, got.Version, want.Version)
			}
			checkStore(t, d, 2)
			if t.Failed() {
				t.Fatalf("%s at operation %d", fault, at)
			}
		}
		if failed < counting.Operations()/every/4 {
			t.Errorf("%s: only %d of %d builds failed", fault, failed, counting.Operations())
		}
	}
}

// TestSweepWithAFaultAnywhere does the same with the removal of a version.
func TestSweepWithAFaultAnywhere(t *testing.T) {
	first, second := twoTrees(t)
	data := t.TempDir()
	mustBuild(t, testOptions(t, data, first))
	stays := mustBuild(t, testOptions(t, data, second)).Version
	sweep := func(d *store.Dir) (store.Swept, error) {
		return d.Sweep(
			t.Context(),
			store.SweepOptions{
				Hold:   func(v fleet.Digest) bool { return v == stays },
				Before: time.Now().Add(time.Hour),
			},
		)
	}
	for _, fault := range faults {
		for at, done := 1, false; !done; at++ {
			data, disk := copyOf(t, data), testkit.NewDisk(fault, at)
			_, err := sweep(faulty(t, data, second, disk).Store)
			done = err == nil && disk.Operations() < at
			if err != nil && !expected(fault, err) {
				t.Errorf("%s at %d: %v", fault, at, err)
			}
			d := afterwards(t, data, disk, fault, uint64(at))
			versions, err := d.Versions()
			if err != nil {
				t.Fatal(err)
			}
			checkStore(t, d, len(versions))
			if _, err := sweep(d); err != nil {
				t.Errorf("%s at %d, then again: %v", fault, at, err)
			}
			checkStore(t, d, 1)
			if again, err := sweep(d); err != nil || again.Objects > 0 {
				t.Errorf("%s at %d: the second left %+v, %v", fault, at, again, err)
			}
			if t.Failed() {
				t.Fatalf("%s at operation %d", fault, at)
			}
			if at > 1000 {
				t.Fatal("a sweep has no end")
			}
		}
	}
}

// copyOf returns a copy of a data directory.
func copyOf(t *testing.T, data string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	return to
}
