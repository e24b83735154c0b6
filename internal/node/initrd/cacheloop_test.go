package initrd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/chunk"
	"pando/internal/disk"
	"pando/internal/hardware"
)

// loopDisk makes a loop device, which counts as a disk of the machine while the test runs.
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
	before := disk.NotDisks
	disk.NotDisks = slices.DeleteFunc(slices.Clone(disk.NotDisks), func(p string) bool { return p == "loop" })
	t.Cleanup(func() {
		disk.NotDisks = before
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v: %s", err, out)
		}
	})
	return device
}

// devicesOf returns the names of a disk and its partitions.
func devicesOf(device string) (names []string) {
	for _, n := range disk.BlockDevices(hardware.Sysfs) {
		if strings.HasPrefix(n, filepath.Base(device)) {
			names = append(names, n)
		}
	}
	return names
}

// readTable makes the kernel read a disk's partition table.
func readTable(t *testing.T, device string) {
	t.Helper()
	if out, err := exec.Command("partx", "--update", device).CombinedOutput(); err != nil {
		t.Logf("partx: %v: %s", err, out) // fails if the kernel has read the table already
	}
}

func setDevice(t *testing.T, what, name string) {
	t.Helper()
	if out, err := exec.Command("blockdev", what, "/dev/"+name).CombinedOutput(); err != nil {
		t.Fatalf("blockdev %s: %v: %s", what, err, out)
	}
}

// A real block device becomes a cache: the kernel finds its partition and refuses other users while a daemon has it.
// The next daemon fetches nothing.
func TestCacheOnALoopDevice(t *testing.T) {
	device := loopDisk(t, 100<<20)
	name := filepath.Base(device)
	if got := disk.CacheDevice(hardware.Sysfs, "/dev", devicesOf(device)); got != "" {
		t.Fatalf("an empty disk is a cache: %s", got)
	}
	if err := disk.PrepareCache(hardware.Sysfs, "/dev", "/proc", device, false); err != nil {
		t.Fatal(err)
	}
	readTable(t, device)
	part := disk.CacheDevice(hardware.Sysfs, "/dev", devicesOf(device))
	if part != name+"p1" {
		t.Fatalf("the cache is %q; the devices are %v", part, devicesOf(device))
	}
	m := testMachine()
	m.cacheDisk.disks = &diskFinder{done: make(chan struct{}), name: part}
	close(m.cacheDisk.disks.done)
	var c blockapi.Config
	for boot := range 3 {
		var err error
		if boot == 2 {
			setDevice(t, "--setro", part)
		}
		if c.Disk, err = m.cacheDisk.openCacheDisk(t.Context(), hardware.Sysfs, 80e6); err != nil {
			t.Fatal(err)
		}
		if c.Disk.ReadOnly != (boot == 2) {
			t.Errorf("boot %d: read-only is %v", boot, c.Disk.ReadOnly)
		}
		for _, d := range []string{device, "/dev/" + part} {
			if err := disk.PrepareCache(hardware.Sysfs, "/dev", "/proc", d, false); err == nil ||
				!strings.Contains(err.Error(), "in use") {
				t.Errorf("prepare %s, which is in use: %v", d, err)
			}
		}
		if had := useCacheDisk(t, c.Disk); had != (boot > 0) {
			t.Errorf("boot %d: what the boot before has put there is there: %v", boot, had)
		}
		c.Disk.File.Close()
	}
}

// namedDisk returns a disk with three partitions that have content: one with the cache's name, a small one with that
// name, and one with another name.
func namedDisk(t *testing.T) (device string, f *os.File, parts []cache.Partition) {
	t.Helper()
	const size = 200 << 20
	device = loopDisk(t, size)
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	parts = []cache.Partition{{Type: cache.TypeCache, Name: cache.PartitionName, Start: 1 << 20, Size: 80 << 20},
		{Type: cache.TypeCache, Name: cache.PartitionName, Start: 81 << 20, Size: 20 << 20},
		{Type: cache.TypeCache, Name: "data", Start: 101 << 20, Size: 80 << 20}}
	err = cache.WritePartitions(f, size, 512, parts)
	for _, p := range parts {
		_, e := f.WriteAt([]byte("XFSB"), p.Start)
		err = errors.Join(err, e)
	}
	if err := errors.Join(err, f.Sync()); err != nil {
		t.Fatal(err)
	}
	readTable(t, device)
	return device, f, parts
}

// A boot makes a cache in a partition that has the cache's name, and uses it at once. A partition that is in use,
// read-only, too small or named otherwise stays as it was.
func TestNewCacheOnALoopDevice(t *testing.T) {
	device, whole, parts := namedDisk(t)
	sys := namesOf(t, device, parts)
	part := disk.CacheDevice(sys, "/dev", devicesOf(device))
	if part != filepath.Base(device)+"p1" {
		t.Fatalf("the cache is %q; the devices are %v", part, devicesOf(device))
	}
	var c blockapi.Config
	m := cacheMachine(part)
	held, err := os.OpenFile("/dev/"+part, os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if text := cacheOf(t, m, sys, &c); text != "" {
		t.Errorf("held by another: %q", text)
	}
	wantNoCache(t, m, "busy")
	held.Close()
	setDevice(t, "--setro", part)
	if text := cacheOf(t, m, sys, &c); text != "" {
		t.Errorf("read-only, and sysfs does not say so: %q", text)
	}
	wantNoCache(t, m, "not permitted")
	ro := filepath.Join(sys, "class/block", part, "ro")
	if err := os.WriteFile(ro, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := cacheOf(t, m, sys, &c); text != "cache on /dev/"+part+", which is read-only" {
		t.Errorf("read-only: %q", text)
	}
	c.Disk.File.Close()
	setDevice(t, "--setrw", part)
	os.Remove(ro)
	small := cacheMachine(filepath.Base(device) + "p2")
	if text := cacheOf(t, small, sys, &c); text != "" {
		t.Errorf("a small one: %q", text)
	}
	wantNoCache(t, small, "20 MB")
	other := filepath.Base(device) + "p3"
	if text := cacheOf(t, cacheMachine(other), sys, &c); text != "cache on /dev/"+other {
		t.Errorf("one that is called otherwise: %q", text)
	}
	c.Disk.File.Close()
	wantXFS(t, whole, parts)
	for boot, want := range []string{"new cache on /dev/" + part + ", which had XFS", "cache on /dev/" + part} {
		if text := cacheOf(t, m, sys, &c); text != want {
			t.Errorf("boot %d: %q, want %q", boot, text, want)
		}
		if had := useCacheDisk(t, c.Disk); had != (boot > 0) {
			t.Errorf("boot %d: what the boot before has put there is there: %v", boot, had)
		}
		c.Disk.File.Close()
	}
	wantXFS(t, whole, parts[1:])
}

// useCacheDisk reports whether a cache has an object, and then puts it there.
func useCacheDisk(t *testing.T, c *blockapi.CacheDisk) (had bool) {
	t.Helper()
	size, err := c.File.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	d, err := cache.Open(c.File, size, cache.Options{Size: c.Size, ReadOnly: c.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("an object")
	v, err := chunk.Check(chunk.Sum(data), data)
	if err != nil {
		t.Fatal(err)
	}
	if _, had = d.Get(v.ID(), int64(len(data))); !had {
		if err := errors.Join(d.Put(v), d.Sync()); err != nil {
			t.Fatal(err)
		}
	}
	return had
}

// namesOf returns the uevent files of a disk's partitions. This machine's kernel may read no names.
func namesOf(t *testing.T, device string, parts []cache.Partition) string {
	t.Helper()
	files := map[string]string{}
	for i, p := range parts {
		files[fmt.Sprintf("class/block/%sp%d/uevent", filepath.Base(device),
			i+1)] = "DEVTYPE=partition\nPARTNAME=" + p.Name
	}
	return nodekit.SysTree(t, files)
}

// wantXFS checks that partitions begin as before.
func wantXFS(t *testing.T, whole *os.File, parts []cache.Partition) {
	t.Helper()
	for _, p := range parts {
		b := make([]byte, 4)
		if _, err := whole.ReadAt(b, p.Start); err != nil || string(b) != "XFSB" {
			t.Errorf("%s at %d begins with %q, %v", p.Name, p.Start, b, err)
		}
	}
}
