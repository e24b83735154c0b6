package initrd

import (
	"pando/internal/blockapi"
	"pando/internal/rundir"
)

// Places in the initramfs.
const (
	bootConfigFile = "/pando/boot.json" // trust cpio
	lowerDir       = "/pando/lower"     // the verified, read-only root
	upperDir       = "/pando/upper"     // tmpfs: upper and work directory of the overlay
	newRoot        = "/newroot"
)

// places are where a boot puts its root together. A node that runs has another set of them for its next root.
type places struct {
	lower, upper string // the verified, read-only root; the tmpfs for what is written
	root         string // the overlay of both
	block        string // directory of the block daemon: its program, and its socket
	device       int    // N of /dev/nbdN
}

// initramfsPlaces are those of a machine that starts.
func initramfsPlaces() places { return places{lowerDir, upperDir, newRoot, rundir.Dir, 0} }

// node is the device's node.
func (p places) node() string { return blockapi.DeviceNode(p.device) }
