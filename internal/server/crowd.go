package server

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// Connections at the same time. A node needs a handful; what is above is closed at once, so that one machine
// cannot take the descriptors of all.
const (
	maxConns        = 65536
	maxConnsPerPeer = 256
)

// crowd is a listener that bounds connections, all together and of one address.
type crowd struct {
	net.Listener
	all, each int

	sent  *atomic.Int64 // bytes that went out by its connections
	mu    sync.Mutex
	count int
	peers map[netip.Addr]int
}

func newCrowd(l net.Listener, all, each int, sent *atomic.Int64) *crowd {
	return &crowd{Listener: l, all: all, each: each, sent: sent, peers: make(map[netip.Addr]int)}
}

// Accept returns the next connection within the bounds.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := remote(conn)
		if c.enter(from) {
			return &guest{Conn: conn, sent: c.sent, leave: sync.OnceFunc(func() { c.leave(from) })}, nil
		}
		_ = conn.Close() // it was never used
	}
}

func remote(conn net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}

func (c *crowd) enter(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= c.all || c.peers[from] >= c.each {
		return false
	}
	c.count++
	c.peers[from]++
	return true
}

func (c *crowd) leave(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
	if c.peers[from]--; c.peers[from] == 0 {
		delete(c.peers, from)
	}
}

// guest is a connection that is counted.
type guest struct {
	net.Conn
	sent  *atomic.Int64
	leave func()
}

// Close closes the connection and makes room for another.
func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}

// SyscallConn is that of the connection itself.
func (g *guest) SyscallConn() (syscall.RawConn, error) {
	c, ok := g.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return c.SyscallConn()
}

// Write counts.
func (g *guest) Write(b []byte) (int, error) {
	n, err := g.Conn.Write(b)
	g.sent.Add(int64(n))
	return n, err
}

// sentPart is after how many bytes of a file what was sent is counted: on a slow link a kernel takes many seconds.
const sentPart = 1 << 20

// ReadFrom keeps the way open for sendfile(2), which net/http uses for files, a part at a time.
func (g *guest) ReadFrom(r io.Reader) (n int64, err error) {
	to, ok := g.Conn.(io.ReaderFrom)
	from, limited := r.(*io.LimitedReader)
	if !ok || !limited {
		return io.Copy(struct{ io.Writer }{g}, r)
	}
	for from.N > 0 && err == nil {
		part := &io.LimitedReader{R: from.R, N: min(from.N, sentPart)}
		var sent int64
		sent, err = to.ReadFrom(part)
		g.sent.Add(sent)
		n, from.N = n+sent, from.N-sent
		if part.N > 0 { // the file is shorter
			break
		}
	}
	return n, err
}

var _ io.ReaderFrom = (*guest)(nil) // without it files are copied by hand

// quietLog takes what net/http complains of: broken handshakes and the like, which strangers cause at will.
func quietLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
