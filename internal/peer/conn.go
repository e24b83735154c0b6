package peer

import (
	"context"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// conn is a connection, whose requests come one after the other.
type conn struct {
	net.Conn
	bulk bool
}

// ConnContext remembers the connection of a request: set it in the http.Server that serves a Handler, so that an upload
// counts until it is sent, and lets messages pass.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &conn{Conn: c})
}

// socket calls f with the socket of a request. A connection of another kind is left as it is.
func socket(ctx context.Context, f func(c *conn, fd int)) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return false
	}
	x, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := x.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { f(c, int(fd)) }) == nil
}

// The priorities of what is sent, of linux/pkt_sched.h. They stay within this machine: the queue before its own link,
// pfifo_fast if nobody chose another, sends what is bulk when there is nothing else.
const (
	prioUsual = 0
	prioBulk  = 2
)

// Bulk lets all else that this machine sends pass the answer to this request: a question of a few hundred bytes, with which the
// next transfer begins, shall not wait behind the transfers that are under way. It holds until the connection's next
// request comes to a handler of Messages. For requests of a server with ConnContext; elsewhere it does nothing.
func Bulk(ctx context.Context) { prioritize(ctx, true) }

// Messages is a handler whose answers are not bulk, unless they say so.
func Messages(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prioritize(r.Context(), false)
		h.ServeHTTP(w, r)
	})
}

func prioritize(ctx context.Context, bulk bool) {
	if c, ok := ctx.Value(connKey{}).(*conn); !ok || c.bulk == bulk {
		return
	}
	socket(ctx, func(c *conn, fd int) {
		priority := prioUsual
		if bulk {
			priority = prioBulk
		}
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, priority) == nil {
			c.bulk = bulk
		}
	})
}

// Between two looks at a connection's queue. On a fast link a piece is gone in half a millisecond.
const (
	drainLeast = 500 * time.Microsecond
	drainMost  = 250 * time.Millisecond
	drained    = 8 << 10 // bytes that may be under way when the next upload begins
)

// drain waits until nearly all that was written to a request's connection has reached the peer. Until then the upload shares this
// node's link with others, whether or not the kernel has taken all of it. It looks again when, at the speed so far, that
// should be so.
func drain(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	before, looked, pause := 0, time.Now(), drainLeast
	for {
		left := 0
		if !socket(ctx, func(_ *conn, fd int) { left, _ = unix.IoctlGetInt(fd, unix.SIOCOUTQ) }) || left <= drained {
			return
		}
		now := time.Now()
		if sent := before - left; sent > 0 {
			pause = time.Duration(float64(now.Sub(looked)) * float64(left-drained) / float64(sent))
		} else if before > 0 {
			pause *= 2
		}
		pause = min(max(pause, drainLeast), drainMost)
		before, looked = left, now
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}
