package server

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"

	"pando/internal/connlimit"
)

// Connections at the same time. A node needs a handful; what is above is closed at once, so that one machine
// cannot take the descriptors of all.
const (
	maxConns        = 65536
	maxConnsPerPeer = 256
)

// counted is a listener whose connections count what they send.
type counted struct {
	net.Listener
	sent *atomic.Int64 // bytes
}

// limitConns bounds the connections to a listener, of all and of each peer, and counts what is sent.
func limitConns(l net.Listener, all, each int, sent *atomic.Int64) net.Listener {
	return &counted{connlimit.Limit(l, all, each), sent}
}

// Accept returns the next connection.
func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, c.sent}, nil
}

// countedConn is a connection that counts.
type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

// SyscallConn is that of the connection itself.
func (c *countedConn) SyscallConn() (syscall.RawConn, error) {
	inner, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return inner.SyscallConn()
}

// Write counts.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// sentPart is after how many bytes of a file what was sent is counted: on a slow link a kernel takes many seconds.
const sentPart = 1 << 20

// ReadFrom keeps the way open for sendfile(2), which net/http uses for files, a part at a time.
func (c *countedConn) ReadFrom(r io.Reader) (n int64, err error) {
	to, ok := c.Conn.(io.ReaderFrom)
	from, limited := r.(*io.LimitedReader)
	if !ok || !limited {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	for from.N > 0 && err == nil {
		part := &io.LimitedReader{R: from.R, N: min(from.N, sentPart)}
		var sent int64
		sent, err = to.ReadFrom(part)
		c.sent.Add(sent)
		n, from.N = n+sent, from.N-sent
		if part.N > 0 { // the file is shorter
			break
		}
	}
	return n, err
}

var _ io.ReaderFrom = (*countedConn)(nil) // without it files are copied by hand

// quietLog takes what net/http complains of: broken handshakes and the like, which anybody on the network causes at
// will.
func quietLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
