package sockopt

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A response that is no message loses the priority of messages until the connection's next request.
func TestMessagesPass(t *testing.T) {
	var seen []int
	look := func(ctx context.Context) {
		socket(ctx, func(fd int) {
			p, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY)
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, p)
		})
	}
	srv := httptest.NewUnstartedServer(Messages(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		look(r.Context())
		if r.URL.Path == "/kernel" {
			LetMessagesPass(r.Context())
			look(r.Context())
		}
	})))
	srv.Config.ConnContext = ConnContext
	srv.Start()
	defer srv.Close()
	for _, path := range []string{"/kernel", "/message"} {
		resp, err := srv.Client().Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if len(seen) != 3 || seen[0] != Message || seen[1] != First || seen[2] != Message {
		t.Errorf("priorities %v, want %d, %d and %d", seen, Message, First, Message)
	}
}

// An upload lasts until the peer has nearly all of it, however much the kernel buffers.
func TestDrain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if err := there.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if err := here.(*net.TCPConn).SetWriteBuffer(64 << 10); err != nil { // so that the kernel buffers little
		t.Fatal(err)
	}
	ctx := ConnContext(t.Context(), here)
	drain(ctx, drainedBytes) // no bytes were written
	if err := here.SetWriteDeadline(time.Now().Add(time.Second / 4)); err != nil {
		t.Fatal(err)
	}
	written, _ := here.Write(make([]byte, 64<<20)) // as much as the kernel buffers
	done := make(chan struct{})
	go func() { drain(ctx, drainedBytes); close(done) }()
	select {
	case <-done:
		t.Fatalf("%d bytes count as sent, and the peer has read none", written)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := io.CopyN(io.Discard, there, int64(written)); err != nil {
		t.Fatal(err)
	}
	<-done
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := here.Write(nil); err == nil {
		drain(cancelled, drainedBytes)
	}
	drain(t.Context(), drainedBytes) // a context without a connection
}
