package disk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pando/internal/cache"
	"pando/internal/problem"
	"pando/internal/testkit/nodekit"
)

func TestListDisks(t *testing.T) {
	sys, dev, proc := nodekit.Disks(t)
	var got []string
	for _, d := range List(sys, dev, proc) {
		got = append(got, strings.Join([]string{d.Name, d.Of, d.Model, strconv.FormatInt(d.Size, 10), d.Used,
			strconv.FormatBool(d.Removable), strconv.FormatBool(d.ReadOnly)}, "|"))
	}
	want := []string{
		"/dev/sda||ATA OLD DISK|512000000|/dev/sda1 is mounted on /data|false|false",
		"/dev/sda1|/dev/sda||204800000|/dev/sda1 is mounted on /data|false|false",
		"/dev/sda2|/dev/sda||204800000|/dev/sda2 is swap space|false|false",
		"/dev/sdb|||163840000||true|false", "/dev/sdc|||163840000||false|true", "/dev/sdd|||51200000||false|false"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestContentOfADisk(t *testing.T) {
	for name, at := range map[string]signature{"XFS": {0, "XFSB", ""}, "ext4": {0x438, "\x53\xef", ""},
		"LUKS": {0, "LUKS\xba\xbe", ""}, "": {0, "nothing", ""}} {
		f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if _, err := f.WriteAt([]byte(at.text), at.at); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(1 << 20); err != nil {
			t.Fatal(err)
		}
		if got := ContentOf(f); got != name {
			t.Errorf("a disk with %q at %d has %q, want %q", at.text, at.at, got, name)
		}
	}
}

func TestPrepareCache(t *testing.T) {
	sys, dev, proc := nodekit.Disks(t)
	for device, why := range map[string]string{"/dev/sda": "mounted on /data", "/dev/sda2": "swap",
		"/dev/sdc": "read-only", "/dev/sdd": "51 MB",
		"/dev/sde": "no disk", "/dev/nbd0": "no disk", "/dev/../etc/passwd": "no disk", "": "no disk"} {
		if err := PrepareCache(sys, dev, proc, device, false); err == nil || !strings.Contains(err.Error(), why) ||
			problem.HintOf(err) == "" {
			t.Errorf("%s: %v, want %q and a hint", device, err, why)
		}
	}
	sdb, err := os.OpenFile(filepath.Join(dev, "sdb"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sdb.Close()
	const size = 320000 * 512
	if _, err := sdb.WriteAt([]byte("XFSB"), 0); err != nil {
		t.Fatal(err)
	}
	if err := PrepareCache(sys, dev, proc, "/dev/sdb", true); err != nil || ContentOf(sdb) != "XFS" {
		t.Errorf("dry run: %v, the disk has %s", err, ContentOf(sdb))
	}
	if err := PrepareCache(sys, dev, proc, "/dev/sdb", false); err != nil {
		t.Fatal(err)
	}
	parts, err := cache.ReadPartitions(sdb, size, 512)
	if err != nil || len(parts) != 1 || parts[0].Name != cache.PartitionName || ContentOf(sdb) != "partition table" {
		t.Fatalf("partitions %+v, %v; the disk has %s", parts, err, ContentOf(sdb))
	}
	if _, err := cache.Open(cache.Section{Area: sdb, Start: parts[0].Start}, parts[0].Size,
		cache.Options{}); err != nil {
		t.Error(err)
	}
	if sgdisk, err := exec.LookPath("sgdisk"); err == nil { // check with another program, if there is one
		if out, err := exec.Command(sgdisk, "--verify", sdb.Name()).CombinedOutput(); err != nil ||
			!strings.Contains(string(out), "No problems found") {
			t.Errorf("sgdisk: %v\n%s", err, out)
		}
	}
}

// The partition stays at its place in the table, and so do its neighbours.
func TestPrepareAPartition(t *testing.T) {
	sys, dev, proc := nodekit.Disks(t)
	if err := os.WriteFile(filepath.Join(proc, "self/mountinfo"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := PrepareCache(sys, dev, proc, "/dev/sda1", false); err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, d := range List(sys, dev, proc) {
		has = append(has, d.Has)
	}
	if has[0] != "" || has[1] != cache.PartitionName || has[2] != "" {
		t.Errorf("the disks have %q", has)
	}
}

// Init uses the partition with the cache's name, or a device that begins as a cache.
func TestCacheDevice(t *testing.T) {
	sys, dev, proc := nodekit.Disks(t)
	names := BlockDevices(sys)
	if got := CacheDevice(sys, dev, names); got != "" {
		t.Errorf("without a cache: %q", got)
	}
	if err := os.WriteFile(filepath.Join(proc, "swaps"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := PrepareCache(sys, dev, proc, "/dev/sda2", false); err != nil {
		t.Fatal(err)
	}
	if got := CacheDevice(sys, dev, names); got != "sda2" {
		t.Errorf("by what it begins with: %q", got)
	}
	if err := os.WriteFile(filepath.Join(sys, "devices/sdb/uevent"),
		[]byte("DEVTYPE=partition\nPARTNAME=pando-cache\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := CacheDevice(sys, dev, names); got != "sda2" {
		t.Errorf("a new one hides one that is full: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dev, "sda2"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := CacheDevice(sys, dev, names); got != "sdb" {
		t.Errorf("by its name: %q", got)
	}
}
