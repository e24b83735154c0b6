package disk

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/cache"
)

// NotDisks lists name prefixes of block devices that are no disks of the machine, or whose drives take long to report
// that they are empty.
var NotDisks = []string{"nbd", "loop", "ram", "zram", "sr", "fd", "dm-", "md"}

// BlockDevices lists disks and partitions, without NotDisks. sys is the mount point of sysfs.
func BlockDevices(sys string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(sys, "class/block"))
	for _, e := range entries {
		if !hasPrefix(e.Name(), NotDisks) {
			names = append(names, e.Name())
		}
	}
	return names
}

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// CacheDevice chooses the device of the node's cache: first a partition that has the cache's name and contains a
// cache, then any partition or unpartitioned disk that contains one, then a partition that only has the name (a new
// cache). It returns "" if there is none.
func CacheDevice(sys, dev string, names []string) string {
	parts := map[string]bool{} // disks that have partitions
	named := ""
	for _, n := range names {
		if PartitionName(sys, n) == cache.PartitionName {
			if isCache(filepath.Join(dev, n)) {
				return n
			}
			named = cmp.Or(named, n) // a candidate for a new cache; an existing cache is preferred
		}
		if disk := WholeDisk(sys, n); disk != "" {
			parts[disk] = true
		}
	}
	for _, n := range names {
		if !parts[n] && isCache(filepath.Join(dev, n)) {
			return n
		}
	}
	return named
}

// PartitionName returns the name that the partition table gives a partition, "" if it has none.
func PartitionName(sys, name string) string {
	data, _ := os.ReadFile(filepath.Join(sys, "class/block", name, "uevent"))
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PARTNAME="); ok {
			return v
		}
	}
	return ""
}

// WholeDisk returns the disk that a partition belongs to, "" if name is not a partition.
func WholeDisk(sys, name string) string {
	dir := filepath.Join(sys, "class/block", name)
	if _, err := os.Stat(filepath.Join(dir, "partition")); err != nil {
		return ""
	}
	to, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	return filepath.Base(filepath.Dir(to))
}

func isCache(device string) bool {
	f, err := os.Open(device)
	if err != nil {
		return false
	}
	defer f.Close()
	return cache.Probe(f)
}
