package swarm

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/swarm"

	"pando/internal/testkit"
)

// Peers that send wrong bytes, break off, never stop, or are very slow do not keep a boot from completing. Its
// incidents name them by address.
func TestBadPeers(t *testing.T) {
	for name, x := range map[string]struct {
		send http.HandlerFunc // nil: a normal daemon on a slow link
		want blockapi.IncidentKind
	}{
		"wrong bytes": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, pieceBlocks*chunk.BlockSize)) // fails if the requester is gone
		}, blockapi.PeerBanned},
		"endless body": {func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}, blockapi.PeerBanned},
		"short body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(pieceBlocks*chunk.BlockSize))
			_, _ = w.Write(make([]byte, 100)) // fails if the requester is gone
			panic(http.ErrAbortHandler)
		}, blockapi.PeerLeft},
		"next to nothing of the rate": {nil, blockapi.PeerLeft},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			f := newFleetOf(t, 2, rate/5) // so slow that much is requested from peers, on any machine
			bad := f.star.NodeAddr(0).String()
			if x.send != nil {
				f.pretend(0, x.send)
			} else {
				n := f.together([]int{0}, nil)[0]
				n.slow(0, rate/400)
			}
			n := f.together([]int{1}, nil)[0]
			st := n.status(func(st blockapi.Status) bool { return told(st, x.want, bad) })
			if x.send != nil && st.Bytes["peer"] > 0 {
				t.Errorf("%d bytes of it were taken", st.Bytes["peer"])
			}
		})
	}
}

// slow limits what node i sends to a rate.
func (n *node) slow(i int, r testkit.Rate) {
	n.f.t.Helper()
	n.f.check(
		n.f.star.Nodes[i].Command(n.f.t.Context(), "tc", "qdisc", "replace", "dev", testkit.LinkName, "root", "tbf",
			"rate", r.String(),
			"burst", "4096", "limit", "131072").
			Run(),
	)
}

// Two peers with all pieces and a tenth of the others' rate delay no node in a storm. Nodes that found such a peer
// slower than others avoid it, and report that.
func TestPeersAtATenthOfTheRate(t *testing.T) {
	f := newFleet(t, 10)
	slow := f.together(numbers(2), nil)
	for i, n := range slow {
		n.slow(i, rate/10)
	}
	begun := time.Now()
	nodes := f.together(numbers(10)[2:], nil)
	took, alone := time.Since(begun), time.Duration(float64(f.w()*8)/float64(rate)*float64(time.Second))
	left := 0
	for _, n := range nodes {
		st := n.now()
		if slices.ContainsFunc(
			[]int{0, 1},
			func(i int) bool { return told(st, blockapi.PeerLeft, f.star.NodeAddr(i).String()) },
		) {
			left++
		}
	}
	t.Logf(
		"eight nodes took %s, %.1f times what a link takes; %d of them have left a slow one",
		took.Round(time.Millisecond),
		float64(took)/float64(alone),
		left,
	)
	if left == 0 {
		t.Error("no node tells of a slow peer")
	}
	if took > 10*alone { // the time that such a peer takes to send everything
		t.Errorf("eight nodes took %s, as long as if all came from those that are slow", took)
	}
}

// pretend makes node i join the swarm as a peer with all pieces, whose answers are the given ones.
func (f *fleet) pretend(i int, send http.HandlerFunc) {
	f.t.Helper()
	pieces := rootBlocks / pieceBlocks
	have := swarm.NewBitmap(pieces)
	for p := range pieces {
		have.Set(p)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /o/{id}", send)
	mux.HandleFunc("GET /have", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Pando-Pack", chunk.Sum(f.config.Pack).String())
		_, _ = w.Write(have) // fails if the requester is gone
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	var l net.Listener
	err := f.star.Nodes[i].Do(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(f.t.Context(), "tcp", ":8481")
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }() // it ends with Close
	f.t.Cleanup(func() { srv.Close() })
	client := &http.Client{Transport: &http.Transport{DialContext: f.star.Nodes[i].Dial, DisableKeepAlives: true}}
	body := strings.NewReader(
		fmt.Sprintf(`{"pack": %q, "pieces": %d, "port": 8481}`, chunk.Sum(f.config.Pack).String(), pieces),
	)
	resp, err := client.Post(f.config.Servers[0]+"/swarm/join", "application/json", body)
	if err != nil || resp.StatusCode != http.StatusOK {
		f.t.Fatalf("join: %v, %v", resp, err)
	}
	resp.Body.Close()
}
