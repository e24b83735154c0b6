package server

import (
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// TestGuestCounts: a sent file is counted part by part, whichever way it is sent, and arrives complete.
func TestGuestCounts(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	l := limitConns(inner, 10, 10, &sent)
	defer l.Close()
	const size = 5<<20 + 7
	path := filepath.Join(t.TempDir(), "file")
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = c.Write([]byte("head"))
		_, _ = c.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: f, N: size})
		_, _ = c.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: f, N: size}) // the file is at its end
	}()
	c, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	half := make([]byte, 3<<20)
	if _, err := io.ReadFull(c, half); err != nil || sent.Load() < 1<<20 {
		t.Errorf("after 3 MiB %d bytes are counted, %v", sent.Load(), err)
	}
	rest, err := io.ReadAll(c)
	if got := append(half, rest...); err != nil || string(got) != "head"+string(data) {
		t.Errorf("%d bytes arrived, %v", len(half)+len(rest), err)
	}
	if sent.Load() != size+4 {
		t.Errorf("%d bytes are counted", sent.Load())
	}
}

// TestWhoFedWhom: the senders that a node reports are recorded by their names, once per boot, and the API shows the
// server's traffic.
func TestWhoFedWhom(t *testing.T) {
	s := startAlone(t)
	s.addImage()
	s.stop()
	s.samples = true
	s.start()
	r := readRecorded(t)
	first, second := s.nodeAt(1, netip.MustParseAddr("127.0.0.11")), s.nodeAt(2, netip.MustParseAddr("127.0.0.12"))
	first.replay(r, trace.Booted)
	p := second.play(r)
	s.clock.add(r.Uptime)
	p.Status.Fed = map[string]int64{first.addr.String(): 700, "http://10.0.0.1:8480": 300, "10.9.9.9": 5, "": 1}
	p.report(trace.Booted, r.Uptime)
	p.Status.Fed = map[string]int64{"10.9.9.9": 99}
	p.report(trace.Booted, r.Uptime)
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	since, until := s.now().Add(-time.Hour), s.now()
	got, err := c.HistorySenders(t.Context(), since, until)
	if err != nil || len(got) != 1 || got[0].Node != "node002" || got[0].Place != "default" || len(got[0].From) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []api.Sender{{Node: "node001", Bytes: 700}, {Other: "10.0.0.1:8480", Bytes: 300},
		{Other: "node at 10.9.9.9", Bytes: 5}, {Bytes: 1}} {
		if got[0].From[i] != want {
			t.Errorf("sender %+v, want %+v", got[0].From[i], want)
		}
	}
	if s.sent.Load() < 300_000 {
		t.Errorf("two nodes were sent %d bytes, kernels among them", s.sent.Load())
	}
	sent := int64(0)
	for deadline := time.Now().Add(time.Minute); sent < 300_000 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // several seconds are recorded together
		samples, err := c.HistorySamples(t.Context(), since, s.now().Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		sent = 0
		for _, x := range samples {
			sent += x.Sent
		}
	}
	if sent < 300_000 || sent > s.sent.Load() {
		t.Errorf("samples of %d bytes, %d were sent", sent, s.sent.Load())
	}
	if _, err := c.HistorySamples(t.Context(), since.Add(-30*time.Hour), until); !api.IsCode(err, api.BadRequest) {
		t.Errorf("a month of samples: %v", err)
	}
}
