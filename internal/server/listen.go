package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/sockopt"
)

// Time limits of connections. There is no limit for writing an answer: an object may take long on a slow link, and TCP
// notices a peer that is gone.
const (
	headerTime = 20 * time.Second // long enough to send a header again that was lost on a full link
	idleTime   = 2 * time.Minute
	goneTime   = 2 * time.Minute // how long data may be unacknowledged, or probes unanswered
	maxHeader  = 16 << 10
)

// ListenError means that the server cannot listen on an address.
type ListenError struct {
	What string // the part that listens, such as "image port"
	Addr string
	hint string
	Err  error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s: listen on %s: %v", e.What, e.Addr, e.Err)
}

// Unwrap returns the underlying error.
func (e *ListenError) Unwrap() error { return e.Err }

// Hint says what can be done about the error.
func (e *ListenError) Hint() string { return e.hint }

func listenError(what, addr string, err error) error {
	e := &ListenError{What: what, Addr: addr, Err: err}
	_, port, _ := net.SplitHostPort(addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.Err = errors.New("another program has this port")
		e.hint = fmt.Sprintf("`ss -lntup 'sport = :%s'` names it; is another `pando serve` running?", port)
	case errors.Is(err, fs.ErrPermission):
		e.hint = "ports below 1024 need root, or CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.hint = "no interface of this machine has this address: `ip address` shows the addresses"
	}
	return e
}

// unsentMost bounds the unsent bytes that the kernel holds for a connection (TCP_NOTSENT_LOWAT). With more, a transfer
// would seem finished too early, and a cancelled one would go on.
const unsentMost = 32 << 10

// listenTCP opens a TCP port. Its connections end after goneTime if the peer vanishes. The bytes that they send are
// added to sent.
func listenTCP(ctx context.Context, what, addr string, sent *atomic.Int64) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: 30 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(goneTime.Milliseconds())),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentMost),
			)
		})
		return errors.Join(err, failed)
	}}
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, listenError(what, addr, err)
	}
	return limitConns(l, maxConns, maxConnsPerPeer, sent), nil
}

func listenUDP(ctx context.Context, what, addr string) (*net.UDPConn, error) {
	c, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", addr)
	if err != nil {
		return nil, listenError(what, addr, err)
	}
	return c.(*net.UDPConn), nil
}

// listenSocket opens the operator's socket, for its owner only. An existing socket belongs to a dead server, because
// this process holds the lock of the data directory.
func listenSocket(ctx context.Context, dir string) (net.Listener, error) {
	path := filepath.Join(dir, SocketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, listenError("operator's socket", path, err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, listenError("operator's socket", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, listenError("operator's socket", path, errors.Join(err, l.Close()))
	}
	return l, nil
}

// newHTTP returns an HTTP server with the limits that all ports share. Requests end with ctx.
func (s *Server) newHTTP(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           sockopt.Messages(h),
		ConnContext:       sockopt.ConnContext,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          quietLog(s.log),
	}
}
