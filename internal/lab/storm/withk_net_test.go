package storm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Six nodes are switched on at once, with a server link for one. Each requests its script from the real server, waits
// for admission, loads all of K, and then boots. The server never admits more nodes than it has slots, and some wait.
func TestStormFromPowerOn(t *testing.T) {
	needFull(t)
	const nodes = 6
	s, out := newTestStorm(t, "--nodes", "6", "--rate", "40mbit", "--think", "0.1", "--k")
	seen := make(chan queueSeen, 1)
	s.ready = func() { go func() { seen <- watchQueue(t.Context(), s) }() }
	if err := s.Measure(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("\n%s", out)
	var r report
	b, err := os.ReadFile(filepath.Join(s.Dir, "storm.json"))
	if err != nil || json.Unmarshal(b, &r) != nil || len(r.Runs) != 0 || len(r.WithK) != 1 {
		t.Fatalf("%d runs with K and %d others (%v)", len(r.WithK), len(r.Runs), err)
	}
	x := r.WithK[0]
	if x.K.Uplink != 40e6 || x.K.NodeLink != 40e6 || x.K.Slots != 2 || x.K.Last < x.K.First || x.K.First <= 0 ||
		x.K.Bytes == 0 {
		t.Errorf(
			"the server takes its link for %d bit/s, a node's for %d, and has %d slots: %+v",
			x.K.Uplink,
			x.K.NodeLink,
			x.K.Slots,
			x.K,
		)
	}
	waited := 0
	for i, n := range x.Each {
		if n.K == nil || n.K.Bytes != x.K.Bytes || n.K.Admitted <= 0 || n.K.There <= n.K.Admitted ||
			n.Attached < n.K.There ||
			n.Booted <= n.Attached {
			t.Errorf(
				"node %d has a root after %g s, has booted after %g s, and loaded %+v",
				i,
				n.Attached,
				n.Booted,
				n.K,
			)
			continue
		}
		if n.K.Asked > 1 {
			waited++
		}
	}
	if len(x.Each) != nodes || waited < nodes-x.K.Together || x.K.Together > 2*x.K.Slots {
		t.Errorf(
			"of %d nodes %d waited, and %d loaded at the same time, with %d slots",
			len(x.Each),
			waited,
			x.K.Together,
			x.K.Slots,
		)
	}
	if x.First >= x.K.Last {
		t.Errorf(
			"the first node has booted after %g s, and not before the last one had K, after %g s: K was in its way",
			x.First,
			x.K.Last,
		)
	}
	if q := <-seen; q.loading == 0 || q.over || q.waiting == 0 {
		t.Errorf(
			"the server had %d nodes load at a time, more than it has slots: %v; %d waited",
			q.loading,
			q.over,
			q.waiting,
		)
	}
	if sent := payload(x.ServerSent, x.Segment); sent < float64(x.serverBytesK()) {
		t.Errorf("%g bytes left the server's link, of %d", sent, x.serverBytesK())
	}
	nothingLeft(t, s)
}

// queueSeen has the largest values of the server's admission queue during a storm.
type queueSeen struct {
	loading, waiting int
	over             bool // more nodes loaded than there are slots
}

// watchQueue polls the admission queue until the server has ended.
func watchQueue(ctx context.Context, s *Storm) (q queueSeen) {
	for site := s.Site; ; time.Sleep(50 * time.Millisecond) {
		st, err := site.API.Status(ctx)
		if err != nil {
			return q
		}
		q.loading, q.waiting = max(q.loading, st.Loads.Loading), max(q.waiting, st.Loads.Waiting)
		q.over = q.over || st.Loads.Loading > st.Loads.Slots
	}
}
