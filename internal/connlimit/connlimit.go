// Package connlimit limits the connections of a listener: in total, and from one address.
//
// It owns the counts of one listener. The server and the block daemon of a node use it, because everybody on their
// network can connect to them. A connection above a limit is closed at once. It must not hide the socket: net/http
// uses its descriptor and sendfile(2).
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

// Limit wraps l, which must not be used any more: at most all connections, and each of one address.
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
		_ = c.Close() // it was never used
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

// conn is a connection that is counted.
type conn struct {
	net.Conn
	leave func()
}

// Close closes the connection and makes room for another.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// SyscallConn is that of the connection itself.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	x, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return x.SyscallConn()
}

// ReadFrom keeps the way open for sendfile(2), which net/http uses for files.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if to, ok := c.Conn.(io.ReaderFrom); ok {
		return to.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}
