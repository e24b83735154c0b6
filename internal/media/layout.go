package media

import (
	"fmt"

	"pando/internal/cache"
)

// Sector is the unit of a layout. Disks with larger sectors do not boot by BIOS, and are refused.
const Sector = 512

const mib = 1 << 20

// Places on a medium, in bytes from its start. They are the same on every medium, so renewing a slot needs no partition
// table.
const (
	loaderAt   = 1 * mib // BIOS boot partition
	loaderSize = 1 * mib
	espAt      = 2 * mib
	espSize    = 64 * mib
	slotsAt    = espAt + espSize
	SlotSize   = 64 * mib
	cacheAt    = slotsAt + Slots*SlotSize

	// Slots is how many copies of kernel+initrd fit on a medium.
	Slots = 2
	// MinSize is the smallest medium: with the smallest cache, and the second partition table.
	MinSize = cacheAt + cache.MinSize + mib
)

// SlotAt is where slot i begins.
func SlotAt(i int) int64 { return slotsAt + int64(i)*SlotSize }

// SlotName is the name of the first slot's partition, which identifies a medium.
const SlotName = "pando-k-a"

// CachePartition is the number of the partition for the cache: the fifth, "/dev/sdb5".
const CachePartition = 5

// Partition types that a cache's disk does not have, in the byte order of the disk.
var (
	typeBIOS = cache.GUID{
		0x48,
		0x61,
		0x68,
		0x21,
		0x49,
		0x64,
		0x6f,
		0x6e,
		0x74,
		0x4e,
		0x65,
		0x65,
		0x64,
		0x45,
		0x46,
		0x49,
	} // GRUB's, 21686148-6449-6e6f-744e-656564454649
	typeLinux = cache.GUID{
		0xaf,
		0x3d,
		0xc6,
		0x0f,
		0x83,
		0x84,
		0x72,
		0x47,
		0x8e,
		0x79,
		0x3d,
		0x69,
		0xd8,
		0x47,
		0x7d,
		0xe4,
	} // Linux data, 0fc63daf-8483-4772-8e79-3d69d8477de4
)

// partitions returns the partitions of a medium of a size in bytes.
func partitions(size int64) []cache.Partition {
	parts := []cache.Partition{
		{Type: typeBIOS, Name: "pando-bios", Start: loaderAt, Size: loaderSize},
		{Type: cache.TypeEFISystem, Name: "pando-efi", Start: espAt, Size: espSize},
	}
	for i, name := range [Slots]string{SlotName, "pando-k-b"} {
		parts = append(parts, cache.Partition{Type: typeLinux, Name: name, Start: SlotAt(i), Size: SlotSize})
	}
	return append(
		parts,
		cache.Partition{Type: cache.TypeCache, Name: cache.PartitionName, Start: cacheAt, Size: CacheSize(size)},
	)
}

// checkSize returns an error if the layout does not fit.
func checkSize(size int64) error {
	if size < MinSize || size%Sector != 0 {
		return fmt.Errorf(
			"boot medium of %d bytes: it needs at least %d MiB, in sectors of %d bytes",
			size,
			MinSize/mib,
			Sector,
		)
	}
	return nil
}

// CacheSize returns how many bytes of a medium of a size are for the cache.
func CacheSize(size int64) int64 {
	_, end := cache.Usable(size, Sector)
	return end - cacheAt
}
