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

// Limits of open connections. A node needs a handful. Connections above a limit are closed at once, so that one machine
// cannot use up the file descriptors.
const (
	maxConns        = 65536
	maxConnsPerPeer = 256
)

// counted is a listener whose connections add the bytes that they send to sent.
type counted struct {
	net.Listener
	sent *atomic.Int64
}

// limitConns limits the connections of l to `all` in total and to `each` per peer, and adds the bytes that they send to
// sent.
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

// countedConn is a connection that counts the bytes that it sends.
type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

// SyscallConn returns the raw connection of the wrapped one.
func (c *countedConn) SyscallConn() (syscall.RawConn, error) {
	inner, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return inner.SyscallConn()
}

// Write sends b and counts the bytes.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// sentPart is the size of the parts in which ReadFrom counts a file: on a slow link a whole kernel takes many seconds.
const sentPart = 1 << 20

// ReadFrom lets net/http send files by sendfile(2), one part at a time.
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
		if part.N > 0 { // the file is shorter than announced
			break
		}
	}
	return n, err
}

var _ io.ReaderFrom = (*countedConn)(nil) // without ReadFrom, net/http copies files through user space

// quietLog logs the complaints of net/http at debug level: anyone on the network can cause broken handshakes and the
// like.
func quietLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
