package disk

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/cache"
)

// NotDisks are block devices that are no disks of the machine, or that take long to say that they are empty.
var NotDisks = []string{"nbd", "loop", "ram", "zram", "sr", "fd", "dm-", "md"}

// BlockDevices lists disks and partitions.
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

// CacheDevice picks the partition that has the cache's name and contains one, or else a partition or whole disk that
// contains one, or else one that only has the name: it is new, and becomes a cache.
func CacheDevice(sys, dev string, names []string) string {
	parts := map[string]bool{} // disks that have partitions
	named := ""
	for _, n := range names {
		if PartitionName(sys, n) == cache.PartitionName {
			if isCache(filepath.Join(dev, n)) {
				return n
			}
			named = cmp.Or(named, n) // it is new, or another disk's cache is worth more
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

// PartitionName is what the kernel read in the partition table, "" for none.
func PartitionName(sys, name string) string {
	data, _ := os.ReadFile(filepath.Join(sys, "class/block", name, "uevent"))
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PARTNAME="); ok {
			return v
		}
	}
	return ""
}

// WholeDisk is the disk that a partition belongs to, "" for what is not a partition.
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
