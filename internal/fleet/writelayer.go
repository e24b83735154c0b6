package fleet

import (
	"fmt"
	"strings"
)

// LayerKind is the kind of a write layer.
type LayerKind string

// The kinds.
const (
	LayerMemory LayerKind = "tmpfs" // memory; grows with what is written
	LayerZram   LayerKind = "zram"  // compressed memory
	LayerDisk   LayerKind = "disk"  // a partition of the node named WritePartition
)

// WritePartition is the GPT name of a write partition, and the label of its file system.
const WritePartition = "pando-write"

// WriteLayer is the storage for a node's writes to its root.
type WriteLayer struct {
	Kind LayerKind
	Keep bool // of LayerDisk: writes outlive a reboot into the same version
}

// ParseWriteLayer parses "tmpfs", "zram", "disk", "disk wipe" or "disk keep". "" means tmpfs. A disk is wiped at each
// boot unless "keep" is given.
func ParseWriteLayer(s string) (WriteLayer, error) {
	switch strings.Join(strings.Fields(s), " ") {
	case "", string(LayerMemory):
		return WriteLayer{Kind: LayerMemory}, nil
	case string(LayerZram):
		return WriteLayer{Kind: LayerZram}, nil
	case string(LayerDisk), string(LayerDisk) + " wipe":
		return WriteLayer{Kind: LayerDisk}, nil
	case string(LayerDisk) + " keep":
		return WriteLayer{Kind: LayerDisk, Keep: true}, nil
	}
	return WriteLayer{}, fmt.Errorf("write layer %q: want tmpfs, zram, 'disk wipe' or 'disk keep'", s)
}

// String returns the write layer in the form that ParseWriteLayer parses.
func (l WriteLayer) String() string {
	switch {
	case l.Kind != LayerDisk:
		return string(l.Kind)
	case l.Keep:
		return string(LayerDisk) + " keep"
	}
	return string(LayerDisk) + " wipe"
}

// WriteLayerText returns the write layer as fleet files have it, LayerMemory by default.
func (k Keeping) WriteLayerText() string {
	if s := ValueOf(k.WriteLayer); s != "" {
		return s
	}
	return string(LayerMemory)
}

// Layer returns the parsed write layer. An invalid value counts as tmpfs; Validate has refused it before.
func (k Keeping) Layer() WriteLayer {
	l, err := ParseWriteLayer(k.WriteLayerText())
	if err != nil {
		return WriteLayer{Kind: LayerMemory}
	}
	return l
}

// WantsDisks reports whether nodes with these settings need disk drivers before they have a root.
func (s Settings) WantsDisks() bool {
	return ValueOf(s.Cache) == CacheDisk || s.Layer().Kind == LayerDisk
}
