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

// Time limits of connections. There is none for writing an answer: an object on a slow link takes as long as
// it takes. A peer that is gone is noticed by TCP.
const (
	headerTime = 20 * time.Second // a header that is lost on a full link is sent again after seconds
	idleTime   = 2 * time.Minute
	goneTime   = 2 * time.Minute // unacknowledged data, or unanswered probes
	maxHeader  = 16 << 10
)

// ListenError means that an address cannot be listened on.
type ListenError struct {
	What string // "data path"
	Addr string
	hint string
	Err  error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s: listen on %s: %v", e.What, e.Addr, e.Err)
}

// Unwrap returns the reason.
func (e *ListenError) Unwrap() error { return e.Err }

// Hint reports what can be done about it.
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
		e.hint = "no interface of this machine has this address: `ip address` shows what there is"
	}
	return e
}

// unsentMost is how many bytes of a connection wait in the kernel until they are sent. With more, a transfer would
// seem over long before it is, and one that is cancelled would go on.
const unsentMost = 32 << 10

// listenTCP opens a TCP port whose connections end when their peer is gone without a word. What they send is added
// to sent.
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

// listenSocket opens the operator's socket, for its owner only. What stands there is a dead server's, because the
// data directory is locked.
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

// newHTTP is a server with the limits that hold for all of them. Requests end with ctx.
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
