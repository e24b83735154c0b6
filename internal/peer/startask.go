package peer

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
)

// startHedge is how long a boot waits for the answer of one tracker before it asks the next server's as well: one that holds its answer and one that hangs
// look the same.
const startHedge = 2 * time.Second

// StartHelp is what a tracker says to a boot that starts.
type StartHelp struct {
	Peers   []string      // base URLs: manifest, signature and map are there as in a server's data path; none: a server has them
	Late    time.Duration // word may be on its way for so long; 0: no longer than usual
	Tracker int           // which of the trackers says so
}

// StartAsk is a boot that starts, as its node says it.
type StartAsk struct {
	Pack   chunk.ID // whose map it will need
	Prefix int      // length of its subnet's prefix; 0: not known
	Place  string   // "": not known
	Near   bool
}

// StartPeers asks trackers, preferred first, who has what a boot starts with. It waits while one says so, for startMost at most, and not for one that is
// not there, or slow while there is another. Whoever sends the files, they have to be verified.
func StartPeers(ctx context.Context, client *http.Client, trackers []string, q StartAsk) StartHelp {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type said struct {
		StartHelp
		err error
	}
	answers := make(chan said, len(trackers))
	asked, failed := 0, 0
	next := func() {
		if at := asked; at < len(trackers) {
			asked++
			go func() {
				h, err := startAt(ctx, client, trackers[at], q)
				h.Tracker = at
				answers <- said{h, err}
			}()
		}
	}
	next()
	slow := time.NewTicker(startHedge)
	defer slow.Stop()
	for failed < len(trackers) {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.StartHelp
			}
			failed++
			next()
		case <-slow.C:
			next()
		}
	}
	return StartHelp{}
}

// startAt asks one tracker.
func startAt(ctx context.Context, client *http.Client, tracker string, ask StartAsk) (h StartHelp, err error) {
	q := startMessage{Pack: ask.Pack.String(), Prefix: ask.Prefix, Place: ask.Place, Near: ask.Near}
	t := trackerClient{tracker, client, &atomic.Int64{}, &atomic.Int64{}}
	patience := startPatience(0)
	for begin := time.Now(); ; {
		var a startReply
		q.Patience = patience.Milliseconds()
		asked := time.Now()
		if err := t.post(ctx, "start", q, &a, patience); err != nil {
			return h, err
		}
		h.Late = milliseconds(a.Late, LateMost)
		for _, p := range a.Peers[:min(len(a.Peers), startNames)] {
			if p.IsValid() {
				h.Peers = append(h.Peers, "http://"+p.String())
			}
		}
		if !a.Again || len(h.Peers) > 0 || time.Since(begin) > startMost {
			return h, nil
		}
		patience = startPatience(h.Late)
		select {
		case <-time.After(startPause - time.Since(asked)):
		case <-ctx.Done():
			return h, nil // what it said last holds
		}
	}
}

// Accuse tells a tracker that a peer sent wrong bytes. For those that are in no swarm yet; nothing is lost when it does not hear of it.
func Accuse(ctx context.Context, client *http.Client, tracker string, accused netip.AddrPort) error {
	t := trackerClient{tracker, client, &atomic.Int64{}, &atomic.Int64{}}
	return t.post(ctx, "wrong", wrongMessage{accused}, &struct{}{}, wordTime(0))
}
