package blockapi

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// DeadTimeout is how long the kernel lets reads wait for a new socket (NBD_ATTR_DEAD_CONN_TIMEOUT).
const DeadTimeout = 30 * 24 * time.Hour

// RequeueAfter is the block layer's timeout. Requests in flight when a daemon dies are sent again only when their timer
// fires, after 30 s by default. NBD's own timeout (NBD_ATTR_TIMEOUT) would fail requests; this one only makes the
// driver check for a new socket.
const RequeueAfter = 2 * time.Second

// openTimeout opens the io_timeout file of a device for writing. A device other than nbd0 may appear only when it is
// attached: openTimeout returns /dev/null then, and the process that attaches it calls ShortenTimeout.
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

// Numbers of the kernel's NBD devices. The root has 0, a staged root has 2 or 3, and extensions have FirstExtension
// and above.
const (
	VolumeDevice   = 1
	SwapDevice     = 4
	FirstExtension = 8
)

// rootReadAhead is the kernel's read-ahead in KiB. The kernel's 128 suit disks that seek. Here each byte is sent and
// unpacked, and the block daemon reads ahead itself: 128 would make a boot read a quarter more
// (docs/adr/0053-rules-of-the-swarm.md).
const rootReadAhead = 32

// DeviceNode is the path of an NBD device.
func DeviceNode(n int) string { return fmt.Sprintf("/dev/nbd%d", n) }

// ShortenTimeout makes the kernel resend requests that were in flight when a daemon died after RequeueAfter.
func ShortenTimeout(device int) {
	_ = os.WriteFile(timeoutFile(device), []byte(strconv.FormatInt(RequeueAfter.Milliseconds(), 10)), 0)
}

// ReadLittleAhead sets the device's read-ahead to rootReadAhead. Errors are ignored: reads work with any read-ahead.
func ReadLittleAhead(device int) {
	_ = os.WriteFile(
		fmt.Sprintf("/sys/block/nbd%d/queue/read_ahead_kb", device),
		[]byte(strconv.Itoa(rootReadAhead)),
		0,
	)
}

// InitScope is the control group of processes that started before systemd. A root's daemon that the agent starts is
// put there: in the agent's own group systemd would kill the daemon together with the agent.
const InitScope = "/sys/fs/cgroup/init.scope"
