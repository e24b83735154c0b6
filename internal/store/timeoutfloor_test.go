package store

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
)

func TestSlow(t *testing.T) {
	var nobody *TimeoutFloor
	if got := nobody.AtLeast(time.Second); got != time.Second {
		t.Errorf("nobody told anything: %s", got)
	}
	var s TimeoutFloor
	for _, x := range []struct{ told, want time.Duration }{{0, time.Second}, {-time.Hour, time.Second},
		{time.Millisecond, time.Second}, {time.Minute, time.Minute}, {0, time.Second}} {
		if s.Set(x.told); s.AtLeast(time.Second) != x.want {
			t.Errorf("told %s: %s, want %s", x.told, s.AtLeast(time.Second), x.want)
		}
	}
}

// TestFailoverOnSlowLinks: on a link that is known to be slow, a silent server is not given up early, with or without
// another source.
func TestFailoverOnSlowLinks(t *testing.T) {
	for _, c := range []struct {
		sources    int
		told, want time.Duration
	}{{1, 0, patienceAlone}, {2, 0, patienceFirst}, {1, 25 * time.Second, 25 * time.Second},
		{2, 25 * time.Second, 25 * time.Second}, {2, time.Second, patienceFirst}} {
		a := &fake{name: "a"}
		sources := []Origin{a, &fake{name: "b"}}
		f, err := NewFailover(&observed{}, sources[:c.sources]...)
		if err != nil {
			t.Fatal(err)
		}
		f.TimeoutFloor = &TimeoutFloor{}
		f.TimeoutFloor.Set(c.told)
		if _, err := f.Get(t.Context(), chunk.Request{ID: chunk.Sum(theObject)}); err != nil ||
			a.seen[0].Patience != c.want {
			t.Errorf(
				"%d sources, told %s: patience %s, want %s (%v)",
				c.sources,
				c.told,
				a.seen[0].Patience,
				c.want,
				err,
			)
		}
	}
}

// TestDialOnSlowLinks: a connection that takes long, because its packets are queued behind others, is waited for if
// the floor says so.
func TestDialOnSlowLinks(t *testing.T) {
	for told, want := range map[time.Duration]time.Duration{0: dialTime, 20 * time.Second: 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var s TimeoutFloor
			s.Set(told)
			begin := time.Now()
			_, err := s.dial(func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})(t.Context())
			if took := time.Since(begin); err == nil || took != want {
				t.Errorf("told %s: it took %s, want %s (%v)", told, took, want, err)
			}
		})
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	resp, err := NewClient(1, &TimeoutFloor{}).Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}
