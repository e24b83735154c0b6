package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// loopDisk is a disk of the kernel's in a file, which is taken for a disk of the machine as long as the test runs.
func loopDisk(t *testing.T, size int64) string {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--partscan", path).CombinedOutput()
	if err != nil {
		t.Skipf("this machine has no loop devices: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	before := notDisks
	notDisks = slices.DeleteFunc(slices.Clone(notDisks), func(p string) bool { return p == "loop" })
	t.Cleanup(func() {
		notDisks = before
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v: %s", err, out)
		}
	})
	return device
}

// A real disk becomes a cache: the kernel finds its partition, refuses it to others while a daemon has it, and the
// daemon after that fetches nothing.
func TestCacheOnALoopDevice(t *testing.T) {
	device := loopDisk(t, 100<<20)
	name := filepath.Base(device)
	ours := func() (names []string) {
		for _, n := range blockDevices(sysfs) {
			if strings.HasPrefix(n, name) {
				names = append(names, n)
			}
		}
		return names
	}
	if got := cacheDevice(sysfs, "/dev", ours()); got != "" {
		t.Fatalf("an empty disk is a cache: %s", got)
	}
	if err := prepareCache(sysfs, "/dev", "/proc", device, false); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("partx", "--update", device).CombinedOutput(); err != nil {
		t.Logf("partx: %v: %s", err, out) // the kernel may know of the partition already
	}
	part := cacheDevice(sysfs, "/dev", ours())
	if part != name+"p1" {
		t.Fatalf("the cache is %q; the devices are %v", part, ours())
	}
	m := &machine{disks: &diskFinder{done: make(chan struct{}), name: part}}
	close(m.disks.done)
	o, c := aloneConfig(t, 300)
	for boot := range 3 {
		var err error
		if boot == 2 {
			if out, err := exec.Command("blockdev", "--setro", "/dev/"+part).CombinedOutput(); err != nil {
				t.Fatalf("blockdev: %v: %s", err, out)
			}
		}
		if c.Disk, err = m.openCacheDisk(t.Context(), sysfs, 80e6); err != nil {
			t.Fatal(err)
		}
		if c.Disk.ReadOnly != (boot == 2) {
			t.Errorf("boot %d: read-only is %v", boot, c.Disk.ReadOnly)
		}
		for _, d := range []string{device, "/dev/" + part} {
			if err := prepareCache(sysfs, "/dev", "/proc", d, false); err == nil || !strings.Contains(err.Error(), "in use") {
				t.Errorf("prepare %s, which is in use: %v", d, err)
			}
		}
		st := readAlone(t, o, c)
		c.Disk.File.Close()
		if (st.Bytes["server"] == 0) != (boot > 0) || (st.Bytes["disk"] > 0) != (boot > 0) || len(st.Incidents) > 0 {
			t.Errorf("boot %d: %v, incidents %v", boot, st.Bytes, st.Incidents)
		}
	}
}
