package blockd

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"pando/internal/blockapi"
	"pando/internal/swarm"
)

// The first failed transfer of a peer is reported with its error. Those of many peers become one incident.
func TestFailedPeersAreTold(t *testing.T) {
	first := swarm.AvoidedPeer{Peer: netip.MustParseAddrPort("10.0.0.7:8481")}
	slow, other := first, first
	slow.Slow, other.Peer = true, netip.MustParseAddrPort("10.0.0.8:8481")
	for want, peers := range map[string][]swarm.AvoidedPeer{
		"a transfer from it broke off":                         {first},
		"a transfer from it took much longer than others":      {slow},
		"transfers from it and 2 more broke off, or took much": {slow, other, other},
	} {
		l := testLedger(t)
		w := &swarmWatch{newSourceWatch(l)}
		w.PeersFailed(peers)
		got := l.incidents(0)
		if len(got) != 1 || got[0].Kind != blockapi.PeerFailed || got[0].Source != "10.0.0.7:8481" ||
			!strings.HasPrefix(got[0].Message, want) {
			t.Errorf("told %+v, want %q", got, want)
		}
	}
}

// A peer that failed once is not avoided, but the failure is on the timeline.
func TestBlockDaemonTellsOfOneFailure(t *testing.T) {
	o, c := newTrackedOrigin(t, 400)
	var asked atomic.Int32
	hostile(t, o, c.Pack, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // busy
			return
		}
		w.Header().Set("Content-Length", "40960")
		_, _ = w.Write(make([]byte, 77)) // fails only if the daemon has ended
		panic(http.ErrAbortHandler)
	})
	a, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	o.readAll(t, a)
	st := statusWhen(t, a, func(st blockapi.Status) bool { return incidentOf(st, blockapi.PeerFailed) })
	if st.Errors > 0 || incidentOf(st, blockapi.PeerLeft, blockapi.PeerBanned, blockapi.PeersGone) {
		t.Errorf("status %+v", st)
	}
}
