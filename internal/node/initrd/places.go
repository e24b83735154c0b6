package initrd

import (
	"pando/internal/blockapi"
	"pando/internal/rundir"
)

// Paths in the initramfs.
const (
	bootConfigFile = "/pando/boot.json" // from the trust cpio
	lowerDir       = "/pando/lower"     // the verified, read-only root
	upperDir       = "/pando/upper"     // tmpfs: upper and work directory of the overlay
	newRoot        = "/newroot"
)

// places are the paths and the device of a root that is being assembled. A running node has others for its next root.
type places struct {
	lower, upper string // mount points of the read-only root, and of the tmpfs for writes
	root         string // mount point of the overlay
	block        string // directory of the block daemon: its program, and its socket
	device       int    // N of /dev/nbdN
}

// initramfsPlaces returns the places of a machine that starts.
func initramfsPlaces() places { return places{lowerDir, upperDir, newRoot, rundir.Dir, 0} }

// node returns the path of the device.
func (p places) node() string { return blockapi.DeviceNode(p.device) }
