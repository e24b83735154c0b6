package store

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How many bytes of a body shall be there before its reader is woken. Without it a node is woken for each frame,
// and on a link of 100 Mb/s or less that costs it more than what it does with the bytes.
const (
	maxCoalesced = 32 << 10
	minCoalesced = 16 << 10        // however slow a sender is
	maxWait      = 2 * time.Second // a reader that waited for so long gets what is there
	// net/http reads headers, and the ends of bodies, with a buffer of no more than so many bytes
	smallRead = 4 << 10
)

// coalescedConn is a connection whose long reads, which are those of bodies, wait for many bytes by SO_RCVLOWAT
// (socket(7)).
type coalescedConn struct {
	net.Conn
	raw   syscall.RawConn
	timer *time.Timer

	mu    sync.Mutex
	level int
	most  int
}

// CoalesceReads returns c with reads that wake once for many segments, by SO_RCVLOWAT. The reader must not ask for more
// bytes than the sender will send; net/http does not. A connection without a file descriptor is returned as it is.
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

// Read is called by one goroutine at a time.
func (g *coalescedConn) Read(p []byte) (int, error) {
	if g.setLevel(len(p)) > 1 {
		g.delayAcks()
		g.timer.Reset(maxWait)
		defer g.timer.Stop()
	}
	return g.Conn.Read(p)
}

// Write begins a request.
func (g *coalescedConn) Write(p []byte) (int, error) {
	g.delayAcks()
	return g.Conn.Write(p)
}

// delayAcks has every second frame acknowledged. By itself, Linux acknowledges each of the first sixteen after a pause,
// which is half of a piece: in a storm of two hundred that was one byte in thirty that a node received. The kernel
// goes back to it whenever it had to acknowledge a frame because no other followed soon.
func (g *coalescedConn) delayAcks() {
	_ = g.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) })
}

// setLevel sets for how many bytes a read of n bytes waits.
func (g *coalescedConn) setLevel(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n <= smallRead {
		n = 1
	}
	g.set(min(n, g.most))
	return g.level
}

// relax wakes the reader with whatever is there: a slow sender is not a dead one, and from now on less is waited
// for. It is still more than a frame: one who is as slow as that is looked at once in longGather, and wakes his
// reader no more often.
func (g *coalescedConn) relax() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.level > 1 {
		g.most = max(g.most/2, minCoalesced)
		g.set(1)
	}
}

// set makes bytes that are there wake their reader if they are level or more. Callers hold mu.
func (g *coalescedConn) set(level int) {
	if level == g.level {
		return
	}
	g.level = level
	_ = g.raw.Control(func(fd uintptr) { // of a connection that is gone the read says so
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, level)
	})
}
