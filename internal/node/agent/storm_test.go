package agent

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/api"
	"pando/internal/backoff"
	"pando/internal/control"
)

// Nodes do not all report in the first seconds after their server comes back. With a try every five seconds it would
// receive all of them within a twelfth of a minute.
func TestSignsOfLifeAfterTheServerWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, away = 200, 10 * time.Minute
		begun := time.Now()
		var mu sync.Mutex
		received := map[time.Duration]int{} // reports in each five seconds after the server came back
		speaks := func(*http.Request) (*http.Response, error) {
			since := time.Since(begun) - away
			if since < 0 {
				return nil, errors.New("no route to host")
			}
			mu.Lock()
			defer mu.Unlock()
			received[since.Truncate(lookEvery)]++
			return &http.Response{StatusCode: http.StatusNoContent, Body: io.NopCloser(&bytes.Reader{})}, nil
		}
		var all sync.WaitGroup
		for range nodes {
			a, _ := listening(t)
			a.sender.control = control.Over([]string{"https://server"}, transport(speaks))
			a.status.systemd = &api.Systemd{State: "running"}
			all.Go(func() {
				for time.Since(begun) < away+2*beatEvery {
					a.status.report(t.Context())
					_ = backoff.Sleep(t.Context(), a.status.interval())
				}
			})
		}
		all.Wait()
		sum, most := 0, 0
		for at, n := range received {
			if most = max(most, n); at < beatEvery {
				sum += n
			}
		}
		if most > nodes/3 || sum < nodes {
			t.Errorf(
				"of %d nodes %d spoke in the same five seconds, and in the first minute there were %d reports",
				nodes,
				most,
				sum,
			)
		}
	})
}
