package tracker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// BenchmarkTracker measures the requests per second of one processor: a thousand nodes that each lack other pieces,
// over HTTP handlers without sockets. A storm of a thousand nodes sends about 5000 requests per second.
func BenchmarkTracker(b *testing.B) {
	const nodes, pieces = 1000, 237
	pack := chunk.Sum([]byte("pack"))
	ids := make([]chunk.ID, pieces)
	for i := range ids {
		ids[i] = chunk.Sum(fmt.Append(nil, i))
	}
	s := New(swarm.TrackerOptions{Uplink: 1 << 40, Random: chance()}, func(chunk.ID) []chunk.ID { return ids }, nil)
	h := s.Handler()
	post := func(n int, path string, message any) {
		body, err := json.Marshal(message)
		if err != nil {
			b.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:1024", n/250, n%250+1)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for n := range nodes {
		post(n, "/swarm/join", swarm.AnnounceMessage{Pack: pack.String(), Pieces: pieces, Port: 8481, Prefix: 16})
	}
	i := 0
	for b.Loop() {
		n := i % nodes
		have := swarm.NewBitmap(pieces)
		for p := range i / nodes % pieces {
			have.Set((p + n) % pieces)
		}
		var want []int
		for p := range 16 {
			want = append(want, (i/nodes+n+p)%pieces)
		}
		post(
			n,
			"/swarm/ask",
			swarm.RequestMessage{Pack: pack.String(), Port: 8481, Size: 87_000, Want: want, Max: 4, Have: have},
		)
		i++
	}
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "questions/s")
}
