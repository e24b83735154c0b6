package blockapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// PendingName is the name that incidents use for a cache disk that did not appear.
const PendingName = "the cache's disk"

// PendingDisk is a cache disk that init still looks for when it starts the daemons. Init sends a CacheDisk with its
// file over a socket, or closes the socket if there is no disk. Daemons only peek at the message, and the supervisor
// keeps a copy of the socket, so every later daemon receives the disk too.
type PendingDisk struct {
	// how long fetches wait for the disk, which may have the objects; 0: the node is not known to have a cache disk
	Wait time.Duration `json:"wait,omitempty"`
	File *os.File      `json:"-"` // the daemons' end of the socket
}

// Came reports whether the search has ended: the disk is there, or there is none.
func (l *PendingDisk) Came() bool { return l.poll(0) }

// poll waits until init sent the disk or closed its end of the socket: at most wait milliseconds, without limit if
// wait is -1. It reports whether that happened.
func (l *PendingDisk) poll(wait int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(l.File.Fd()), Events: unix.POLLIN}}, wait)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// Receive waits until the search has ended and returns the disk, or nil if there is none.
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

// sentFile returns the file whose descriptor came with a message.
func sentFile(rights []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err == nil && len(messages) != 1 {
		err = errors.New("the message has no descriptor")
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

// Send passes the disk to daemons that were started before it was found.
func (c *CacheDisk) Send(to *os.File) error {
	b, err := json.Marshal(c)
	if err == nil {
		err = unix.Sendmsg(int(to.Fd()), b, unix.UnixRights(int(c.File.Fd())), nil, unix.MSG_NOSIGNAL)
	}
	return err
}
