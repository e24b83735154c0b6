package blockapi

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// DeadTimeout is how long the kernel lets reads wait for a new socket.
const DeadTimeout = 30 * 24 * time.Hour

// RequeueAfter is the block layer's timeout. Requests in flight when a daemon dies are sent again only when their timer
// fires, after 30 s by default. NBD's own timeout (NBD_ATTR_TIMEOUT) would fail requests; this one only makes the
// driver check for a new socket.
const RequeueAfter = 2 * time.Second

// openTimeout opens the io_timeout of a device for writing. A device other than the first is there once it was
// attached, and whoever has it attached writes to it then.
func openTimeout(device int) (*os.File, error) {
	f, err := os.OpenFile(timeoutFile(device), os.O_WRONLY, 0)
	if device > 0 && errors.Is(err, os.ErrNotExist) {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("block device: %w (is module nbd loaded?)", err)
	}
	return f, nil
}

func timeoutFile(device int) string { return fmt.Sprintf("/sys/block/nbd%d/queue/io_timeout", device) }

// The kernel's NBD devices: the root has 0, what is staged to follow it 2 or 3, extensions have those from
// firstExtension on.
const (
	VolumeDevice   = 1
	SwapDevice     = 4
	FirstExtension = 8
)

// rootReadAhead is how far the kernel reads ahead of a file that is read, in KiB. Its own 128 are for disks, which
// have to be moved; here each byte has to be sent and unpacked, and the block daemon reads ahead of files that are
// read in order. A server's boot reads 29.9 MB this way, and 36.9 with 128 (docs/adr/0053-rules-of-the-swarm.md).
const rootReadAhead = 32

// DeviceNode is the path of an NBD device.
func DeviceNode(n int) string { return fmt.Sprintf("/dev/nbd%d", n) }

// ShortenTimeout makes the kernel resend sooner what was in flight when a daemon died.
func ShortenTimeout(device int) {
	_ = os.WriteFile(timeoutFile(device), []byte(strconv.FormatInt(RequeueAfter.Milliseconds(), 10)), 0)
}

// ReadLittleAhead tells the kernel so. It may refuse: the root works the same.
func ReadLittleAhead(device int) {
	_ = os.WriteFile(
		fmt.Sprintf("/sys/block/nbd%d/queue/read_ahead_kb", device),
		[]byte(strconv.Itoa(rootReadAhead)),
		0,
	)
}

// InitScope is the control group of processes from before systemd. A daemon of the root that the agent starts must not
// stay in the agent's group, or it would be killed with it.
const InitScope = "/sys/fs/cgroup/init.scope"
