package blockapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// PendingName is the name, in incidents, of a disk that did not appear.
const PendingName = "the cache's disk"

// PendingDisk is a cache on a disk that init still looks for when it starts the daemons. The disk comes over a socket,
// as a CacheDisk with its file; when there is none, that is closed. It stays in the socket, of which the supervisor
// has a copy as well: so each daemon that takes over gets it there.
type PendingDisk struct {
	// how long fetches wait for the disk, which may have the objects; 0: the node is not known to have one
	Wait time.Duration `json:"wait,omitempty"`
	File *os.File      `json:"-"` // the daemons' end
}

// Came reports whether the disk is there, or will not come.
func (l *PendingDisk) Came() bool { return l.poll(0) }

// poll waits so many milliseconds, or with -1 for as long as it takes, for something to happen at the other end.
func (l *PendingDisk) poll(wait int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(l.File.Fd()), Events: unix.POLLIN}}, wait)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// Receive returns the disk when it is there, nil when there is none.
func (l *PendingDisk) Receive() (*CacheDisk, error) {
	l.poll(-1)
	data, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, of, _, _, err := unix.Recvmsg(
		int(l.File.Fd()),
		data,
		rights,
		unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC,
	)
	if err != nil {
		return nil, fmt.Errorf("take the cache's disk over: %w", err)
	}
	if n == 0 {
		return nil, nil
	}
	c := &CacheDisk{}
	if c.File, err = sentFile(rights[:of]); err != nil {
		return nil, fmt.Errorf("take the cache's disk over: %w", err)
	}
	if err := json.Unmarshal(data[:n], c); err != nil {
		c.File.Close()
		return nil, fmt.Errorf("take the cache's disk over: %w", err)
	}
	return c, nil
}

// sentFile is the descriptor that came with a message.
func sentFile(rights []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err == nil && len(messages) != 1 {
		err = errors.New("no descriptor came with it")
	}
	if err != nil {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), PendingName), nil
}

// Send gives the disk to daemons that were started before it was there.
func (c *CacheDisk) Send(to *os.File) error {
	b, err := json.Marshal(c)
	if err == nil {
		err = unix.Sendmsg(int(to.Fd()), b, unix.UnixRights(int(c.File.Fd())), nil, unix.MSG_NOSIGNAL)
	}
	return err
}
