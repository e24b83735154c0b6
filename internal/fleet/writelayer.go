package fleet

import "fmt"

// WriteLayer is what takes the writes to a node's root.
type WriteLayer string

// The write layers.
const (
	LayerTmpfs WriteLayer = "tmpfs"     // memory
	LayerZram  WriteLayer = "zram"      // memory, compressed
	LayerDisk  WriteLayer = "disk"      // a partition that bears LayerPartition, empty at each boot
	LayerKeep  WriteLayer = "disk keep" // the same, kept as long as the node boots the same version
)

// LayerPartition is the name in the partition table of what a write layer may be on.
const LayerPartition = "pando-write"

// ParseWriteLayer reads one; "" is memory.
func ParseWriteLayer(s string) (WriteLayer, error) {
	switch l := WriteLayer(s); l {
	case "":
		return LayerTmpfs, nil
	case LayerTmpfs, LayerZram, LayerDisk, LayerKeep:
		return l, nil
	}
	return "", fmt.Errorf("write layer %q: want tmpfs, zram, disk or 'disk keep'", s)
}

// OnDisk reports whether the layer wants a disk.
func (l WriteLayer) OnDisk() bool { return l == LayerDisk || l == LayerKeep }

// Fullness says how much room is left for what a node writes.
type Fullness int

// The levels. Almost is time to do something, Full that writes fail soon.
const (
	Roomy  Fullness = iota
	Almost          // 80 % or more
	Full            // 95 % or more
)

// FullnessOf judges one resource, of which a total of 0 is not known.
func FullnessOf(used, total int64) Fullness {
	switch {
	case total <= 0 || used*100 < total*80:
		return Roomy
	case used*100 < total*95:
		return Almost
	}
	return Full
}
