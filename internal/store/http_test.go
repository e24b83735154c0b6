package store

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
)

// origin is an HTTP server of objects whose behaviour a test changes.
type origin struct {
	*httptest.Server
	objects map[string][]byte
	gets    atomic.Int64
	handle  atomic.Pointer[http.HandlerFunc] // instead of answering well
}

func newOrigin(t *testing.T, objects ...[]byte) *origin {
	t.Helper()
	o := &origin{objects: map[string][]byte{}}
	for _, b := range objects {
		o.objects["/o/"+chunk.Sum(b).Name()] = b
	}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.gets.Add(1)
		if h := o.handle.Load(); h != nil {
			(*h)(w, r)
			return
		}
		b, ok := o.objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(b)
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *origin) misbehave(h http.HandlerFunc) { o.handle.Store(&h) }

func (o *origin) source(t *testing.T) *HTTP {
	c := NewClient(4, nil)
	t.Cleanup(c.CloseIdleConnections)
	return &HTTP{URL: o.URL, Client: c}
}

func TestHTTPGet(t *testing.T) {
	small, large := []byte("an object"), make([]byte, 200_000)
	rand.NewChaCha8([32]byte{3}).Read(large)
	o := newOrigin(t, small, large, nil)
	h := o.source(t)
	for _, want := range [][]byte{small, large, nil} {
		for _, size := range []int64{0, int64(len(want))} {
			v, err := h.Get(t.Context(), chunk.Request{ID: chunk.Sum(want), Size: size})
			if err != nil || string(v.Stored()) != string(want) || v.ID() != chunk.Sum(want) {
				t.Errorf("%d bytes, size given as %d: %d bytes, %v", len(want), size, len(v.Stored()), err)
			}
		}
	}
	if _, err := h.Get(t.Context(), chunk.Request{ID: chunk.Sum([]byte("lost"))}); !errors.Is(err, ErrMissing) {
		t.Errorf("lost object: %v, want ErrMissing", err)
	}
}

// TestHTTPBadAnswers: for every kind of bad reply, the error that the caller gets.
func TestHTTPBadAnswers(t *testing.T) {
	want := []byte(strings.Repeat("object", 100))
	flipped := []byte(strings.Repeat("object", 100))
	flipped[77] ^= 1
	o := newOrigin(t, want)
	h := o.source(t)
	id := chunk.Sum(want)
	hijack := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(c, answer)
				c.Close()
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		wrong  bool // wrong bytes, as opposed to a failed transfer
	}{
		"flipped bit":    {func(w http.ResponseWriter, r *http.Request) { w.Write(flipped) }, true},
		"truncated file": {func(w http.ResponseWriter, r *http.Request) { w.Write(want[:99]) }, true},
		"empty":          {func(w http.ResponseWriter, r *http.Request) {}, true},
		"too long": {func(w http.ResponseWriter,
			r *http.Request) {
			w.Write(append(flipped[:len(flipped):len(flipped)], 1))
		}, true},
		"endless":              {func(w http.ResponseWriter, r *http.Request) { io.Copy(w, zeros{}) }, true},
		"truncated, no length": {hijack("HTTP/1.0 200 OK\r\n\r\nobject"), true},
		"broken off":           {hijack("HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\nobject"), false},
		"not HTTP":             {hijack("SSH-2.0-OpenSSH_9.2\r\n"), false},
		"hung up":              {hijack(""), false},
		"busy":                 {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }, false},
		"partial": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(206); w.Write(want) },
			false},
		"sent to a name": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://localhost/o/1", http.StatusFound)
		}, false},
		"sent around": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, false},
	} {
		o.misbehave(c.answer)
		for _, size := range []int64{0, int64(len(want))} {
			v, err := h.Get(t.Context(), chunk.Request{ID: id, Size: size})
			var wrong *chunk.WrongBytesError
			if err == nil || len(v.Stored()) != 0 || errors.As(err, &wrong) != c.wrong {
				t.Errorf(
					"%s (size given as %d): %d bytes, %v; want wrong bytes: %v",
					name,
					size,
					len(v.Stored()),
					err,
					c.wrong,
				)
			}
		}
	}
}

// TestCoalesceReads: a body is complete however seldom its reader is woken, and so is the next, short one on the same
// connection.
func TestCoalesceReads(t *testing.T) {
	large, small := make([]byte, 200_000), []byte("an object")
	rand.NewChaCha8([32]byte{4}).Read(large)
	o := newOrigin(t, large, small)
	h := o.source(t)
	h.Client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for range 3 {
		for _, want := range [][]byte{large, small} {
			for _, size := range []int64{0, int64(len(want))} {
				if _, err := h.Get(t.Context(),
					chunk.Request{ID: chunk.Sum(want), Size: size, Patience: 5 * time.Second}); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestCoalescedReadsDelayAcks: with a request the connection begins to acknowledge every second frame.
func TestCoalescedReadsDelayAcks(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	quick := func() (v int) {
		_ = raw.Control(func(fd uintptr) { v, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK) })
		return v
	}
	if quick() != 1 || err != nil {
		t.Fatalf("the kernel begins otherwise: %d, %v", quick(), err)
	}
	if _, err := CoalesceReads(c).Write([]byte("GET / HTTP/1.1\r\n")); err != nil || quick() != 0 {
		t.Errorf("frames are acknowledged one by one (%v)", err)
	}
}

// TestCoalescedReadsWakeSeldom: a reader is woken when much has arrived, or after some time if the sender is slow.
func TestCoalescedReadsWakeSeldom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(t.Context(), &net.Dialer{}, l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sender, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	g := c.(*coalescedConn)
	// look reports whether a reader would be woken, when so many bytes are there.
	look := func(bytes int) (ready bool) {
		err := g.raw.Control(func(fd uintptr) {
			for there := 0; there < bytes; { // on their way through loopback
				there, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			}
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			ready = n > 0 && err == nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return ready
	}
	send := func(bytes int) {
		if _, err := sender.Write(make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	g.setLevel(smallRead)
	send(1)
	if !look(1) {
		t.Error("a read of headers waits")
	}
	g.setLevel(2 * maxCoalesced)
	if look(1) {
		t.Error("a long read is woken for one byte")
	}
	send(maxCoalesced - 1)
	if !look(maxCoalesced) {
		t.Errorf("a long read is not woken for %d bytes", maxCoalesced)
	}
	if _, err := io.ReadFull(c, make([]byte, maxCoalesced)); err != nil {
		t.Fatal(err)
	}
	g.setLevel(1 << 20)
	send(100)
	before := look(100)
	g.relax()
	if before || !look(100) || g.setLevel(1<<20) != maxCoalesced/2 {
		t.Errorf(
			"a slow sender: woken for its bytes %v, after a while %v, then for %d",
			before,
			look(100),
			g.setLevel(1<<20),
		)
	}
	for range 5 {
		g.relax()
		if !look(100) || g.setLevel(1<<20) != minCoalesced || look(100) {
			t.Errorf("a very slow sender: woken for its bytes after a while %v, then for "+
				"%d", look(100), g.setLevel(1<<20))
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestHTTPPatience: a server that sends slowly does not time out; one that stops does.
func TestHTTPPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := []byte("slowly, but it comes")
		silent := false
		c := &http.Client{
			Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go dribble(theirs, slow, silent)
				return ours, nil
			}, DisableKeepAlives: true},
		}
		h := &HTTP{URL: "http://192.0.2.1", Client: c}
		start := time.Now()
		if _, err := h.Get(t.Context(), chunk.Request{ID: chunk.Sum(slow), Patience: 3 * time.Second}); err != nil {
			t.Errorf("slow server: %v after %v", err, time.Since(start))
		}
		silent = true
		start = time.Now()
		_, err := h.Get(t.Context(), chunk.Request{ID: chunk.Sum(slow), Patience: 3 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "no byte for 3s") || time.Since(start) > 6*time.Second {
			t.Errorf("silent server: %v after %v", err, time.Since(start))
		}
	})
}

// dribble answers one request with a byte every two seconds; if stop is set it stops halfway.
func dribble(c net.Conn, body []byte, stop bool) {
	defer c.Close()
	c.Read(make([]byte, 4096))
	io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
	for i := range body {
		if stop && i == 1 {
			io.Copy(io.Discard, c) // says nothing until the client hangs up
			return
		}
		<-time.After(2 * time.Second)
		if _, err := c.Write(body[i : i+1]); err != nil {
			return
		}
	}
}

// observed is an Observer that records its calls.
type observed struct {
	mu     sync.Mutex
	bytes  map[string]int
	failed []string
}

func (o *observed) Received(source string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes == nil {
		o.bytes = map[string]int{}
	}
	o.bytes[source] += n
}

func (o *observed) Failed(source string, id chunk.ID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind := "failed"
	var wrong *chunk.WrongBytesError
	switch {
	case errors.As(err, &wrong):
		kind = "wrong"
	case errors.Is(err, ErrMissing):
		kind = "missing"
	}
	o.failed = append(o.failed, source+" "+kind)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestHTTPShortNames: a peer can be asked by short IDs and with a query string; the reply must still be the whole
// object.
func TestHTTPShortNames(t *testing.T) {
	id, asked := chunk.Sum([]byte("object")), ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = io.WriteString(w, "object")
	}))
	defer s.Close()
	h := HTTP{URL: s.URL, Client: NewClient(1, nil), ShortNames: true, Query: "now"}
	if _, err := h.Get(t.Context(), chunk.Request{ID: id, Size: 6}); err != nil ||
		asked != "/o/"+id.Short().String()+"?now" {
		t.Errorf("asked for %q: %v", asked, err)
	}
	if _, err := h.Get(t.Context(), chunk.Request{ID: chunk.Sum([]byte("other"))}); err == nil {
		t.Error("another object is taken")
	}
}
