package peer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// A node serves its bootstrap files to nodes that boot later. The tracker names it while the server has no room.
func TestJoinOverSockets(t *testing.T) {
	s := newSite(t, 4, 0)
	client := &http.Client{Timeout: 10 * time.Second}
	if got := Join(t.Context(), client, []string{s.URL}, JoinOptions{Pack: s.pack, Prefix: 24}); got.Peers != nil {
		t.Errorf("with room: %v", got)
	}
	manifest := []byte("a manifest")
	n := s.start(t, 1, func(o *NodeOptions) {
		o.Bootstrap = swarm.BootstrapFiles{Manifest: manifest, Signature: []byte("signed")}
		o.Bootstrap.Map, _ = chunk.Check(s.pack, []byte("pack")) // cannot fail
	})
	n.wait(t)
	s.tracker.Load().Busy(true)
	peers := Join(t.Context(), client, []string{s.URL}, JoinOptions{Pack: s.pack, Prefix: 24}).Peers
	if len(peers) != 1 {
		t.Fatalf("the server has no room, and one node has it: %v", peers)
	}
	sum := sha256.Sum256(manifest)
	name := hex.EncodeToString(sum[:])
	for path, want := range map[string]string{"/m/" + name: "a manifest", "/m/" + name + ".minisig": "signed",
		"/m/" + name[1:]: "",
		"/m/.minisig":    "", "/o/" + s.pack.Name(): "pack"} {
		resp, err := client.Get("http://" + peers[0].String() + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || want != "" && string(b) != want || want == "" && resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, %q, %v", path, resp.StatusCode, b, err)
		}
	}
	if got := Join(t.Context(), client, []string{s.URL},
		JoinOptions{Pack: chunk.Sum([]byte("another")), Prefix: 24}); got.Peers != nil {
		t.Errorf("of a pack that the server has not: %v", got)
	}
}

// If no node has the files and the server has no room, a boot waits while the tracker tells it to. It does not wait for
// a tracker that is gone.
func TestJoinNeverHangs(t *testing.T) {
	s := newSite(t, 4, 1)
	s.spend(t)
	begin := time.Now()
	time.AfterFunc(time.Second, s.CloseClientConnections)
	if got := Join(t.Context(), &http.Client{}, []string{s.URL},
		JoinOptions{Pack: s.pack, Prefix: 24}); got.Peers != nil {
		t.Errorf("named: %v", got)
	}
	if took := time.Since(begin); took < time.Second || took > startTime/2 {
		t.Errorf("it took %s", took)
	}
}

// A boot asks the next server's tracker when the first one hangs, is gone, or does not know the pack.
func TestJoinAsksTheNextTracker(t *testing.T) {
	s := newSite(t, 4, 0)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
		<-r.Context().Done()
	}))
	defer hangs.Close()
	unknown := httptest.NewServer(http.NotFoundHandler())
	defer unknown.Close()
	for name, first := range map[string]string{"hangs": hangs.URL, "is gone": "http://127.0.0.1:1", "does not " +
		"know": unknown.URL} {
		begin := time.Now()
		h := Join(t.Context(), &http.Client{}, []string{first, s.URL}, JoinOptions{Pack: s.pack, Prefix: 24})
		if took := time.Since(begin); h.Tracker != 1 || took > startTime/2 {
			t.Errorf("the first one %s: %+v after %s", name, h, took)
		}
	}
	if h := Join(t.Context(), &http.Client{}, []string{"http://127.0.0.1:1", "http://127.0.0.1:1"},
		JoinOptions{Pack: s.pack}); h.Peers != nil ||
		h.Tracker != 0 {
		t.Errorf("nobody is there: %+v", h)
	}
}

// The values of these constants in package swarm.
const (
	startTime  = 12 * time.Second
	startPause = 500 * ms
)

// A booting node that received wrong bytes tells the tracker, although it is in no swarm.
func TestReportCorrupt(t *testing.T) {
	s := newSite(t, 4, 0)
	s.proofs = 1
	s.restart(0)
	bad := s.start(t, 1)
	bad.wait(t)
	if s.tracker.Load().Nodes() != 1 {
		t.Fatal("it may not join")
	}
	if err := ReportCorrupt(t.Context(), &http.Client{}, s.URL,
		netip.AddrPortFrom(bad.o.Self, bad.o.Port)); err != nil {
		t.Fatal(err)
	}
	if n := s.tracker.Load().Nodes(); n != 0 {
		t.Errorf("the tracker knows %d nodes", n)
	}
}

// A tracker that always answers "again" at once is asked rarely, and not for ever.
func TestJoinIsRepeated(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = fmt.Fprint(w, `{"again":true,"late_ms":99999999999}`)
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*startPause-startPause/2)
	defer cancel()
	h := Join(ctx, http.DefaultClient, []string{srv.URL}, JoinOptions{Pack: chunk.Sum([]byte("x")), Prefix: 24})
	if n := asked.Load(); n != 3 || h.AnnounceDelay != swarm.MaxAnnounceDelay || h.Peers != nil {
		t.Errorf("asked %d times, %+v", n, h)
	}
}
