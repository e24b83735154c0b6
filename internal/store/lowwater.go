package store

import (
	"context"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How many bytes of a body shall be there before its reader is woken. Without it a node is woken for each frame, and on a link of
// 100 Mb/s or less that costs it more than what it does with the bytes.
const (
	mostWater = 32 << 10
	longWater = time.Second // a reader that waited for so long gets what is there
)

// lowWater sets SO_RCVLOWAT (socket(7)) of the connection that a request got. The zero value does nothing until it has one.
type lowWater struct {
	mu    sync.Mutex
	conn  syscall.RawConn
	level int // 0: not set
	most  int
	tired *time.Timer // winds up at each set
}

// trace returns a context whose request tells which connection it got; after a redirection, the last.
func (w *lowWater) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if c, ok := i.Conn.(syscall.Conn); ok {
			w.conn, _ = c.SyscallConn() // without it each frame wakes
		}
	}})
}

// set is called before each read of a body of which left bytes are still to come; less than one: not known.
func (w *lowWater) set(left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return
	}
	if w.tired == nil {
		w.most, w.tired = mostWater, time.AfterFunc(longWater, w.relax)
	}
	w.tired.Reset(longWater)
	w.ask(max(min(left, w.most), 1))
}

// relax wakes the reader with whatever is there: a slow sender is not a dead one, and from now on less is waited for.
func (w *lowWater) relax() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most/4, 1)
	w.ask(1)
}

// done makes the connection fit for whatever comes next on it. Bytes that came meanwhile wake their reader.
func (w *lowWater) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tired != nil {
		w.tired.Stop()
		w.ask(1)
	}
}

// ask sets the level. Callers hold mu.
func (w *lowWater) ask(level int) {
	if level == w.level {
		return
	}
	w.level = level
	_ = w.conn.Control(func(fd uintptr) { // of a connection that is gone the read says so
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, level)
	})
}
