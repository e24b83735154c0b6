package nbd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Device is where an export's bytes come from.
//
// ReadAt fills the whole of p from offset off or returns an error; it is called from many goroutines at a
// time, and only with ranges inside Size. It may block for as long as it likes, until ctx is done. An Errno in
// the error's chain is sent to the client, any other error is sent as EIO.
type Device interface {
	Size() int64
	ReadAt(ctx context.Context, p []byte, off int64) error
}

// Prompt is a Device that can answer some reads without waiting. ReadNow fills the whole of p from offset off and
// returns true, or it does nothing and returns false; ReadAt is asked then. It is called by one goroutine for each
// connection, which reads no other request until it returns.
type Prompt interface {
	ReadNow(p []byte, off int64) bool
}

// Export is one device as clients see it.
type Export struct {
	Name        string // "" is what a client gets that asks for no name
	Description string
	Device      Device
}

// Limits of what one connection may ask for.
const (
	// MaxRequest is the largest read in bytes; clients are told so. The protocol lets a client that does
	// not ask assume 32 MiB, and the ones we know split their reads accordingly.
	MaxRequest = 32 << 20
	// maxOption is the longest option that is read at all; names are at most 4096 bytes.
	maxOption = 16 << 10
	maxName   = 4096
	// handshakeTime ends a handshake that does not.
	handshakeTime = 30 * time.Second
)

// Server serves exports. The zero value with Exports set is ready to use.
type Server struct {
	Exports []Export
	Log     *slog.Logger // nil: no log

	// Requests is how many reads of one connection run at a time; 0: 16. More wait in the socket.
	Requests int
	// Buffer is how many bytes of answers one connection may hold; 0: 4 MiB. One read that is larger than
	// that is served alone.
	Buffer int64
}

// Serve accepts clients on l until ctx is done, and returns after the last connection ended. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			l.Close()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("nbd: accept on %s: %w", l.Addr(), err)
		}
		conns.Go(func() {
			if err := s.ServeConn(ctx, c); err != nil {
				s.log().Info("nbd client cut off", "client", c.RemoteAddr(), "err", err)
			}
		})
	}
}

// ServeConn negotiates with one client and serves it. It returns nil when the client said goodbye or hung up
// between requests, and closes c.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return fmt.Errorf("nbd handshake: %w", err)
	}
	dev, err := (&handshake{conn: c, exports: s.Exports}).run()
	if err != nil || dev == nil {
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("nbd handshake: %w", err)
	}
	return s.transmit(ctx, c, dev)
}

// ServeKernel serves dev on a socket whose other end was given to the kernel; there is no handshake. It
// returns nil when the kernel disconnected, and closes c.
func (s *Server) ServeKernel(ctx context.Context, c net.Conn, dev Device) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	return s.transmit(ctx, c, dev)
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}
