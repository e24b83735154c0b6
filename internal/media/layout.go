package media

import "fmt"

// Sector is what a layout counts in. Disks whose smallest unit is larger are not for BIOS, and are refused.
const Sector = 512

const mib = 1 << 20

// Places on a medium, in bytes from its start. Every medium has the same, so whoever renews a slot needs no partition
// table for it.
const (
	loaderAt   = 1 * mib // BIOS boot partition
	loaderSize = 1 * mib
	espAt      = 2 * mib
	espSize    = 64 * mib
	slotsAt    = espAt + espSize
	SlotSize   = 64 * mib
	cacheAt    = slotsAt + Slots*SlotSize

	// Slots is how many copies of K a medium has room for.
	Slots = 2
	// MinSize is the smallest medium: with 1 MiB of cache, and the second partition table.
	MinSize = cacheAt + 2*mib
)

// SlotAt is where slot i begins.
func SlotAt(i int) int64 { return slotsAt + int64(i)*SlotSize }

// Names of the partitions. The last is the one that a node looks for.
const (
	biosName  = "pando-bios"
	espName   = "pando-efi"
	CacheName = "pando-cache"
)

// CachePartition is the number of the partition for the cache: the fifth, "/dev/sdb5".
const CachePartition = 5

// partitions are those of a medium of so many bytes.
func partitions(size int64) []partition {
	parts := []partition{
		{kind: kindBIOS, name: biosName, at: loaderAt, size: loaderSize},
		{kind: kindESP, name: espName, at: espAt, size: espSize},
	}
	for i := range Slots {
		parts = append(parts, partition{kind: kindLinux, name: "pando-k-" + string(rune('a'+i)), at: SlotAt(i), size: SlotSize})
	}
	end := (size - tableSize) / mib * mib
	return append(parts, partition{kind: kindCache, name: CacheName, at: cacheAt, size: end - cacheAt})
}

// checkSize refuses what a layout does not fit on.
func checkSize(size int64) error {
	if size < MinSize || size%Sector != 0 {
		return fmt.Errorf("boot medium of %d bytes: it needs at least %d MiB, in sectors of %d bytes", size, MinSize/mib, Sector)
	}
	return nil
}

// CacheSize is how much of a medium of so many bytes is for the cache.
func CacheSize(size int64) int64 {
	parts := partitions(size)
	return parts[len(parts)-1].size
}
