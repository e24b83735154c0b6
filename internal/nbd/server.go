package nbd

import (
	"context"
	"net"
)

// Device is the source of an export's bytes. ReadAt fills all of p from offset off or returns an error. It is called
// concurrently, with ranges inside Size only, and may block until ctx is done. An Errno in the error's chain is sent to
// the client; any other error is sent as EIO.
type Device interface {
	Size() int64
	ReadAt(ctx context.Context, p []byte, off int64) error
}

// Prompt is a Device that can answer some reads without waiting. ReadNow fills p from offset off and returns true, or
// does nothing and returns false; then ReadAt is called. The goroutine that reads requests calls it, so it must be
// fast.
type Prompt interface {
	ReadNow(p []byte, off int64) bool
}

// MaxRequest is the largest read in bytes. The protocol lets a client that does not negotiate assume 32 MiB.
const MaxRequest = 32 << 20

// Server answers the reads of connections. The zero value is ready to use.
type Server struct {
	// Requests is how many reads of one connection run at a time; 0: 16. Further requests wait in the socket.
	Requests int
	// Buffer is how many bytes of answers one connection may hold; 0: 4 MiB. A larger read runs alone.
	Buffer int64
}

// ServeKernel serves dev on a socket whose other end was given to the kernel; there is no handshake, because netlink
// gave the kernel size and flags. It returns nil when the kernel disconnected. It closes c.
func (s *Server) ServeKernel(ctx context.Context, c net.Conn, dev Device) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	return s.transmit(ctx, c, dev)
}
