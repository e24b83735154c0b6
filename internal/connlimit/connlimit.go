package connlimit

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Listener accepts connections within its limits.
type Listener struct {
	net.Listener
	all, each int

	mu    sync.Mutex
	count int
	of    map[netip.Addr]int
}

// Limit wraps l, which must not be used directly any more. It allows all connections in total, and each from one
// address.
func Limit(l net.Listener, all, each int) *Listener {
	return &Listener{Listener: l, all: all, each: each, of: map[netip.Addr]int{}}
}

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := remote(c)
		if l.enter(from) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}
		_ = c.Close() // nothing was sent
	}
}

func remote(c net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}

func (l *Listener) enter(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.all || l.of[from] >= l.each {
		return false
	}
	l.count++
	l.of[from]++
	return true
}

func (l *Listener) leave(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count--
	if l.of[from]--; l.of[from] == 0 {
		delete(l.of, from)
	}
}

// conn is a counted connection.
type conn struct {
	net.Conn
	leave func()
}

// Close closes the connection, which no longer counts.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// SyscallConn returns the raw connection, so that socket options can be set.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	x, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return x.SyscallConn()
}

// ReadFrom passes on to the connection, so that net/http can send files with sendfile(2).
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if to, ok := c.Conn.(io.ReaderFrom); ok {
		return to.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}
