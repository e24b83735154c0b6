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

// connKey is the key of a request's connection in its context.
type connKey struct{}

// conn is a connection, whose requests come one after the other.
type conn struct {
	net.Conn

	mu       sync.Mutex // a Line changes the priority while a request is answered
	priority int
}

// ConnContext remembers the connection of a request: set it in the http.Server that serves a Handler, so that an upload
// counts until it is sent, and lets messages pass.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &conn{Conn: c})
}

// socket calls f with the socket of a request. A connection of another kind is left as it is.
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

// LetMessagesPass is for an answer that is long, and no piece. It shares this machine's link with the upload whose
// turn it is: a question of a few hundred bytes, with which the next transfer begins, shall not wait behind
// manifests. It holds until the connection's next request comes to a handler of Messages. For requests of a server
// with ConnContext; elsewhere it does nothing.
func LetMessagesPass(ctx context.Context) { prioritize(ctx, First) }

// Messages is a handler whose answers pass all else, unless they say otherwise.
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

// Between two looks at a connection's queue. On a fast link a piece is gone in half a millisecond.
const (
	drainLeast   = 500 * time.Microsecond
	drainMost    = 250 * time.Millisecond
	drainedBytes = 8 << 10 // bytes that may be under way when the next upload begins
)

// Drain waits until nearly all of the response to a request has reached the client, at most until the timeout.
func Drain(ctx context.Context, timeout time.Duration) { drainTo(ctx, timeout, drainedBytes) }

// DrainAll is Drain for the last byte.
func DrainAll(ctx context.Context, timeout time.Duration) { drainTo(ctx, timeout, 0) }

func drainTo(ctx context.Context, timeout time.Duration, rest int) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	drain(ctx, rest)
}

// drain waits until no more than rest of what was written to a request's connection is still to reach the peer.
// Until then the upload shares this node's link with others, whether or not the kernel has taken all of it. It
// looks again when, at the speed so far, that should be so.
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
