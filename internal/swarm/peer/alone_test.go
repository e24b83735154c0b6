package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
	"pando/internal/swarm/tracker"
)

// The network of a lone node: 100 Mb/s, with pieces of the size in a server's boot pack.
const (
	aloneTrip   = 2 * ms // round trip to the server
	alonePieces = 200
	aloneSize   = 87_500
	aloneRate   = 12_500_000
	alonePiece  = aloneSize * time.Second / aloneRate // time of the link for one piece
)

// messenger carries messages to a tracker without sockets.
type messenger func(*http.Request) (*http.Response, error)

// RoundTrip takes one round trip's time.
func (m messenger) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(aloneTrip)
	return m(r)
}

// silence is a tracker that never answers.
func silence(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// closed is a port that refuses connections.
func closed(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }

// by is a tracker that answers with a handler.
func by(h http.Handler) messenger {
	return func(r *http.Request) (*http.Response, error) {
		w, q := httptest.NewRecorder(), r.Clone(r.Context())
		q.RemoteAddr = "10.0.0.7:1234"
		h.ServeHTTP(w, q)
		return w.Result(), nil
	}
}

// loneLink is the server's link to a node. It sends one object at a time, and records when each was requested.
type loneLink struct {
	slot  chan struct{}
	begin time.Time
	sent  func(chunk.ID)

	mu    sync.Mutex
	asked map[chunk.ID]time.Duration
	first time.Duration // when the first piece was requested; below 0: no piece was
}

// Get sends an object of the tests.
func (l *loneLink) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	l.note(r.ID)
	time.Sleep(aloneTrip)
	return l.send(ctx, r.ID)
}

func (l *loneLink) send(ctx context.Context, id chunk.ID) (chunk.Verified, error) {
	select {
	case l.slot <- struct{}{}:
	case <-ctx.Done():
		return chunk.Verified{}, ctx.Err()
	}
	time.Sleep(alonePiece)
	<-l.slot
	l.sent(id)
	return loneObjects[id], nil
}

func (l *loneLink) note(id chunk.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Since(l.begin)
	l.asked[id] = at
	if id != loneID && l.first < 0 {
		l.first = at
	}
}

// lonePack is the pack of these tests. loneID is a demand object, such as a part of the index.
var lonePack, loneObjects, loneID = lonely()

func lonely() (pieces []Piece, objects map[chunk.ID]chunk.Verified, demand chunk.ID) {
	objects = map[chunk.ID]chunk.Verified{}
	for i := range alonePieces + 1 {
		b := binary.LittleEndian.AppendUint32(nil, uint32(i))
		demand = chunk.Sum(b)
		objects[demand], _ = chunk.Check(demand, b) // cannot fail
		pieces = append(pieces, Piece{demand, aloneSize})
	}
	return pieces[:alonePieces], objects, demand
}

// lone has the times of a lone node: the requests for the first piece, for the piece and the demand object that reads
// wait for from the start, and the arrival of the last piece.
type lone struct{ first, read, demand, all time.Duration }

func newLoneLink(sent func(chunk.ID)) *loneLink {
	return &loneLink{
		slot:  make(chan struct{}, 1),
		begin: time.Now(),
		sent:  sent,
		asked: map[chunk.ID]time.Duration{},
		first: -1,
	}
}

// alone runs a node without peers, with a tracker or without.
func alone(t *testing.T, m http.RoundTripper, l *loneLink) lone {
	t.Helper()
	pack := chunk.Sum([]byte("pack"))
	n := &live{
		t:      t,
		site:   &site{pieces: lonePack},
		all:    make(chan struct{}),
		from:   map[string]int{},
		kept:   map[int]chunk.Verified{},
		came:   map[int]bool{},
		notHad: map[int]error{},
	}
	o := NodeOptions{
		Pack:     pack,
		Pieces:   lonePack,
		Store:    n,
		Origin:   l,
		Port:     swarm.Port,
		Prefix:   24,
		Observer: n,
		Log:      slog.New(slog.DiscardHandler),
	}
	if m != nil {
		o.Trackers = []string{"http://10.0.0.1:8480"}
	}
	n.Node = NewNode(o)
	n.tracker.client = &http.Client{Transport: m}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { n.Run(ctx) })
	waited := lonePack[alonePieces/2].ID
	for _, id := range []chunk.ID{waited, loneID} {
		work.Go(func() {
			if v, err := n.Get(ctx, chunk.Request{ID: id}); err != nil || v.ID() != id {
				t.Errorf("a read has %s and %v, want %s", v.ID(), err, id)
			}
		})
	}
	n.wait(t)
	all := time.Since(l.begin)
	cancel()
	work.Wait()
	return lone{l.first, l.asked[waited], l.asked[loneID], all}
}

// A lone node waits only for a reply of the tracker, or 0.3 s if the tracker does not answer. After that the server's
// link is never idle until the node has all pieces.
func TestAloneNothingIsWaitedFor(t *testing.T) {
	for name, x := range map[string]struct {
		tracker func(*tracker.Server) http.RoundTripper
		begins  time.Duration // latest request for the first piece
	}{
		"no tracker is known": {func(*tracker.Server) http.RoundTripper { return nil }, 0},
		"a server without a tracker": {func(*tracker.Server) http.RoundTripper { return by(http.NotFoundHandler()) },
			aloneTrip},
		"nobody listens":           {func(*tracker.Server) http.RoundTripper { return messenger(closed) }, aloneTrip},
		"a tracker that is silent": {func(*tracker.Server) http.RoundTripper { return messenger(silence) }, 300 * ms},
		// an announcement and a piece request
		"a tracker and no peer": {func(s *tracker.Server) http.RoundTripper { return by(s.Handler()) }, 2 * aloneTrip},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLoneTracker(aloneRate)
				got := alone(
					t,
					x.tracker(s),
					newLoneLink(func(id chunk.ID) { s.Sent(netip.MustParseAddr("10.0.0.7"), id) }),
				)
				t.Logf("%+v", got)
				if got.first < 0 || got.first > x.begins || got.read > x.begins || got.demand > 0 {
					t.Errorf(
						"asked for the first piece after %s, for the one that a read waits for after %s, "+
							"want %s; for a demand object after %s, want at once",
						got.first,
						got.read,
						x.begins,
						got.demand,
					)
				}
				if most := x.begins + (alonePieces+1)*alonePiece + 2*aloneTrip; got.all > most {
					t.Errorf("all pieces were there after %s, want %s: the link was idle", got.all, most)
				}
			})
		})
	}
}

func newLoneTracker(rate int64) *tracker.Server {
	return tracker.New(swarm.TrackerOptions{Uplink: rate, Random: chance()}, func(chunk.ID) (ids []chunk.ID) {
		for _, p := range lonePack {
			ids = append(ids, p.ID)
		}
		return ids
	}, nil)
}

// A tracker that answers an announcement and then nothing more counts as lost after the usual 6 s. Then the server is
// asked.
func TestAloneWithATrackerThatFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLoneTracker(aloneRate)
		answers := by(s.Handler())
		got := alone(t, messenger(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/swarm/join" {
				return silence(r)
			}
			return answers(r)
		}), newLoneLink(func(chunk.ID) {}))
		t.Logf("%+v", got)
		if most := 6*time.Second + aloneTrip; got.first < 0 || got.first > most || got.read > most || got.demand > 0 {
			t.Errorf(
				"asked for the first piece after %s, for the one that a read waits for after %s, want %s; for a "+
					"demand object after %s, want at once",
				got.first,
				got.read,
				most,
				got.demand,
			)
		}
	})
}

// A booting node asks the server when the tracker names no node or is gone. It waits for a tracker that does not
// answer, because a tracker with a full uplink holds the request.
func TestJoinAlone(t *testing.T) {
	for name, x := range map[string]struct {
		answer http.RoundTripper
		most   time.Duration
	}{
		"a server without a tracker": {by(http.NotFoundHandler()), aloneTrip},
		"nobody listens":             {messenger(closed), aloneTrip},
		"a tracker that is silent":   {messenger(silence), 12 * time.Second},
		"a tracker and no peer":      {nil, aloneTrip},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if x.answer == nil {
					x.answer = by(newLoneTracker(aloneRate).Handler())
				}
				begin := time.Now()
				q := JoinOptions{Pack: chunk.Sum([]byte("pack")), Prefix: 24}
				h := Join(t.Context(), &http.Client{Transport: x.answer}, []string{"http://10.0.0.1:8480"}, q)
				if took := time.Since(begin); took > x.most || len(h.Peers) > 0 {
					t.Errorf("%v named after %s, want nobody after %s", h.Peers, took, x.most)
				}
			})
		})
	}
}
