package store

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How many bytes of a body must have arrived before its reader is woken. Waking a node for each frame costs it more
// CPU time than it spends on the bytes, on a link of 100 Mb/s or less.
const (
	maxCoalesced = 32 << 10
	minCoalesced = 16 << 10        // minimum, even for a slow sender
	maxWait      = 2 * time.Second // then the reader gets what has arrived
	// smallRead is the size of net/http's buffered reads, which read headers and the ends of bodies.
	smallRead = 4 << 10
)

// coalescedConn is a connection whose long reads, those of bodies, wait for many bytes by SO_RCVLOWAT (socket(7)).
type coalescedConn struct {
	net.Conn
	raw   syscall.RawConn
	timer *time.Timer

	mu    sync.Mutex
	level int
	most  int
}

// CoalesceReads returns c with reads that return after many segments, by SO_RCVLOWAT. A reader must not ask for more
// bytes than the sender will send; net/http does not. A connection without a file descriptor is returned unchanged.
func CoalesceReads(c net.Conn) net.Conn {
	x, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := x.SyscallConn()
	if err != nil {
		return c
	}
	g := &coalescedConn{Conn: c, raw: raw, level: 1, most: maxCoalesced}
	g.timer = time.AfterFunc(maxWait, g.relax)
	return g
}

// Read must be called by one goroutine at a time.
func (g *coalescedConn) Read(p []byte) (int, error) {
	if g.setLevel(len(p)) > 1 {
		g.delayAcks()
		g.timer.Reset(maxWait)
		defer g.timer.Stop()
	}
	return g.Conn.Read(p)
}

// Write sends a request.
func (g *coalescedConn) Write(p []byte) (int, error) {
	g.delayAcks()
	return g.Conn.Write(p)
}

// delayAcks makes the kernel acknowledge every second frame. After a pause, and after an acknowledgement that it
// could not delay, Linux acknowledges each of the next sixteen frames, which adds traffic in a boot storm. So each
// request sets it.
func (g *coalescedConn) delayAcks() {
	_ = g.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) })
}

// setLevel sets for how many bytes a read of n bytes waits, and returns that number.
func (g *coalescedConn) setLevel(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n <= smallRead {
		n = 1
	}
	g.set(min(n, g.most))
	return g.level
}

// relax returns whatever has arrived and lowers the threshold, so that a slow sender does not look dead. The
// threshold stays above one frame: even then the reader is woken only once in maxWait.
func (g *coalescedConn) relax() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.level > 1 {
		g.most = max(g.most/2, minCoalesced)
		g.set(1)
	}
}

// set sets the number of bytes that must have arrived before the reader is woken. Callers hold mu.
func (g *coalescedConn) set(level int) {
	if level == g.level {
		return
	}
	g.level = level
	_ = g.raw.Control(func(fd uintptr) { // if the connection is gone, the read returns the error
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, level)
	})
}
