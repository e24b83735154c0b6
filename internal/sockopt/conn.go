package sockopt

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connKey is the context key of a request's connection.
type connKey struct{}

// conn is a connection. Its requests come one after the other.
type conn struct {
	net.Conn

	mu       sync.Mutex // a Scheduler changes the priority while a request is answered
	priority int
}

// ConnContext stores a connection in the context of its requests. Set it in the http.Server of a handler that uses
// Drain, Messages or a Scheduler.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &conn{Conn: c})
}

// socket calls f with the socket of a request. It returns false if the request has none.
func socket(ctx context.Context, f func(fd int)) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	return ok && c.control(f)
}

func (c *conn) control(f func(fd int)) bool {
	x, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := x.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { f(int(fd)) }) == nil
}

// LetMessagesPass lowers the priority of a long response, such as a manifest, below that of messages. A handler of
// Messages raises it again with the next request of the connection. Without ConnContext it does nothing.
func LetMessagesPass(ctx context.Context) { prioritize(ctx, First) }

// Messages returns a handler whose responses have the priority of messages, unless they lower it.
func Messages(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prioritize(r.Context(), Message)
		h.ServeHTTP(w, r)
	})
}

func prioritize(ctx context.Context, priority int) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.prioritize(priority)
	}
}

func (c *conn) prioritize(priority int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.priority == priority {
		return
	}
	if x, ok := c.Conn.(syscall.Conn); ok && Set(x, priority) {
		c.priority = priority
	}
}

// Limits of the pause between two checks of a connection's queue. A fast link sends a piece in half a millisecond.
const (
	drainLeast   = 500 * time.Microsecond
	drainMost    = 250 * time.Millisecond
	drainedBytes = 8 << 10 // bytes that may be unsent when the next upload begins
)

// Drain waits until nearly all of the response to a request has reached the client, or until the timeout.
func Drain(ctx context.Context, timeout time.Duration) { drainTo(ctx, timeout, drainedBytes) }

// DrainAll is like Drain, and waits for the last byte.
func DrainAll(ctx context.Context, timeout time.Duration) { drainTo(ctx, timeout, 0) }

func drainTo(ctx context.Context, timeout time.Duration, rest int) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	drain(ctx, rest)
}

// drain waits until at most rest of the bytes written to a connection have not reached the client. Until then the
// response uses the link, even if the kernel has buffered all of it. drain estimates from the speed so far when to
// check again.
func drain(ctx context.Context, rest int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	before, looked, pause := 0, time.Now(), drainLeast
	for {
		left := 0
		if !socket(ctx, func(fd int) { left, _ = unix.IoctlGetInt(fd, unix.SIOCOUTQ) }) || left <= rest {
			return
		}
		now := time.Now()
		if sent := before - left; sent > 0 {
			pause = time.Duration(float64(now.Sub(looked)) * float64(left-rest) / float64(sent))
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
