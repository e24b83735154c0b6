package peer

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/sockopt"
)

// A client that does not read keeps its upload slot no longer than the limit of an upload. With an announce delay the
// limit is longer.
func TestUploadEndsThoughNobodyReads(t *testing.T) {
	n := NewNode(NodeOptions{Pack: chunk.Sum([]byte("pack"))})
	n.uploadTime = 100 * time.Millisecond
	const late = 200 * time.Millisecond
	n.o.Slow.Set(late)
	took := make(chan time.Duration, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		n.upload(w, r, make([]byte, 128<<10), &n.slots.Pieces)
		took <- time.Since(begin)
	}))
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if err := c.(*net.TCPConn).SetWriteBuffer(1 << 20); err != nil { // the kernel buffers all of it
			t.Error(err)
		}
		return sockopt.ConnContext(ctx, c)
	}
	srv.Start()
	defer srv.Close()
	peer, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if err := peer.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-took:
		if d < n.uploadTime+2*late || n.slots.Pieces.Active() != 0 {
			t.Errorf("it took %v, and %d are under way", d, n.slots.Pieces.Active())
		}
	case <-time.After(10 * time.Second):
		t.Error("it has its place for ever")
	}
}
