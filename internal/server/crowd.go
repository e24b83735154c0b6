package server

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"sync"
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

	mu    sync.Mutex
	count int
	peers map[netip.Addr]int
}

func newCrowd(l net.Listener, all, each int) *crowd {
	return &crowd{Listener: l, all: all, each: each, peers: make(map[netip.Addr]int)}
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
			return &guest{Conn: conn, leave: sync.OnceFunc(func() { c.leave(from) })}, nil
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

// ReadFrom keeps the way open for sendfile(2), which net/http uses for files.
func (g *guest) ReadFrom(r io.Reader) (int64, error) {
	if rf, ok := g.Conn.(io.ReaderFrom); ok {
		return rf.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{g.Conn}, r)
}

var _ io.ReaderFrom = (*guest)(nil) // without it files are copied by hand

// quietLog takes what net/http complains of: broken handshakes and the like, which strangers cause at will.
func quietLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
