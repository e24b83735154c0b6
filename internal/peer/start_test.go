package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"pando/internal/chunk"
)

// A node gives what it booted by to those that boot after it, whom the tracker sends while the server has no room.
func TestStartOverSockets(t *testing.T) {
	s := newSite(t, 4, 0)
	client := &http.Client{Timeout: 10 * time.Second}
	if got := StartPeers(t.Context(), client, []string{s.URL}, StartAsk{Pack: s.pack, Prefix: 24}); got.Peers != nil {
		t.Errorf("with room: %v", got)
	}
	manifest := []byte("a manifest")
	n := s.start(t, 1, func(o *NodeOptions) {
		o.Start = StartFiles{Manifest: manifest, Signature: []byte("signed")}
		o.Start.Map, _ = chunk.Check(s.pack, []byte("pack")) // it is
	})
	n.wait(t)
	s.tracker.mu.Lock()
	for range openMost {
		s.tracker.tracker.uplink.spend(sending{since: s.tracker.now()}, 1)
	}
	s.tracker.mu.Unlock()
	peers := StartPeers(t.Context(), client, []string{s.URL}, StartAsk{Pack: s.pack, Prefix: 24}).Peers
	if len(peers) != 1 {
		t.Fatalf("the server has no room, and one node has it: %v", peers)
	}
	sum := sha256.Sum256(manifest)
	name := hex.EncodeToString(sum[:])
	for path, want := range map[string]string{"/m/" + name: "a manifest", "/m/" + name + ".minisig": "signed", "/m/" + name[1:]: "",
		"/m/.minisig": "", "/o/" + s.pack.Name(): "pack"} {
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
	if got := StartPeers(t.Context(), client, []string{s.URL}, StartAsk{Pack: chunk.Sum([]byte("another")), Prefix: 24}); got.Peers != nil {
		t.Errorf("of a pack that the server has not: %v", got)
	}
}

// TestStartNeverHangs: where no node has it and the server has no room, a boot waits while its tracker says so, and
// not for one that is gone.
func TestStartNeverHangs(t *testing.T) {
	s := newSite(t, 4, 0)
	s.tracker.mu.Lock()
	for range openMost {
		s.tracker.tracker.uplink.spend(sending{since: s.tracker.now() + time.Hour}, 1)
	}
	s.tracker.tracker.firsts = time.Hour
	s.tracker.mu.Unlock()
	begin := time.Now()
	time.AfterFunc(time.Second, s.CloseClientConnections)
	if got := StartPeers(t.Context(), &http.Client{}, []string{s.URL}, StartAsk{Pack: s.pack, Prefix: 24}); got.Peers != nil {
		t.Errorf("named: %v", got)
	}
	if took := time.Since(begin); took < time.Second || took > startTime/2 {
		t.Errorf("it took %s", took)
	}
}

// A boot asks the next server's tracker when the first one hangs, is gone, or does not know the pack.
func TestStartAsksTheNextTracker(t *testing.T) {
	s := newSite(t, 4, 0)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else nobody sees that the client is gone
		<-r.Context().Done()
	}))
	defer hangs.Close()
	unknown := httptest.NewServer(http.NotFoundHandler())
	defer unknown.Close()
	for name, first := range map[string]string{"hangs": hangs.URL, "is gone": "http://127.0.0.1:1", "does not " +
		"know": unknown.URL} {
		begin := time.Now()
		h := StartPeers(t.Context(), &http.Client{}, []string{first, s.URL}, StartAsk{Pack: s.pack, Prefix: 24})
		if took := time.Since(begin); h.Tracker != 1 || took > startTime/2 {
			t.Errorf("the first one %s: %+v after %s", name, h, took)
		}
	}
	if h := StartPeers(t.Context(), &http.Client{}, []string{"http://127.0.0.1:1", "http://127.0.0.1:1"}, StartAsk{Pack: s.pack}); h.Peers != nil ||
		h.Tracker != 0 {
		t.Errorf("nobody is there: %+v", h)
	}
}

// A boot that got wrong bytes tells the tracker, though it is in no swarm.
func TestAccuse(t *testing.T) {
	s := newSite(t, 4, 0)
	bad := netip.MustParseAddrPort("10.0.0.9:8481")
	if _, ok := s.tracker.tracker.Join(0, Join{Swarm: "p", Pieces: 40, Node: bad}); !ok {
		t.Fatal("it may not join")
	}
	if err := Accuse(t.Context(), &http.Client{}, s.URL, bad); err != nil {
		t.Fatal(err)
	}
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	if got := s.tracker.tracker.bans.proofs; len(got[bad.Addr()].to) != 1 {
		t.Errorf("the tracker knows %v", got)
	}
}
