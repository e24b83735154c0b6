package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/netboot"
	"pando/internal/sockopt"
)

// Files at the start of a boot never wait behind pieces, and long ones let short messages pass.
func TestWhatBootsStartWithIsNotBehindPieces(t *testing.T) {
	s := startAlone(t)
	m, version := s.addImage()
	n := s.node(1)
	n.exchange(netboot.IPXE) // from here on a boot file is part of a boot
	kernel, _ := urls(t, n.script())

	conns := make(chan *net.TCPConn, 8)
	srv := s.newHTTP(t.Context(), s.dataRoutes())
	remember := srv.ConnContext
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		conns <- c.(*net.TCPConn)
		return remember(ctx, c)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()

	for path, want := range map[string]int{
		"/m/" + strings.TrimPrefix(string(version), "sha256:"): sockopt.First,
		"/o/" + m.Root.Index.Name():                            sockopt.First, // it is small
		"/boot/file/undionly.kpxe":                             sockopt.First,
		// the kernel shares the link with pieces
		kernel:                          sockopt.Bulk,
		"/o/" + strings.Repeat("0", 64): sockopt.Message, // no such object
	} {
		// Each request has its own connection, so that its priority can be read.
		client := &http.Client{Transport: &http.Transport{}}
		resp, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		raw, err := (<-conns).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		got := -1
		if err := raw.Control(func(fd uintptr) {
			got,
				err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY)
		}); err != nil {
			t.Fatal(err)
		}
		if (resp.StatusCode == http.StatusOK) != (want != sockopt.Message) || got != want {
			t.Errorf("%s: HTTP status %d, priority %d, want %d", path, resp.StatusCode, got, want)
		}
		client.CloseIdleConnections()
	}
}
