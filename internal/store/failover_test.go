package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
)

// fake is a Source that behaves as its fields say.
type fake struct {
	name string
	mu   sync.Mutex
	next []error // of the next requests; nil or none left: the object
	seen []chunk.Request
}

var theObject = []byte("the object")

func (f *fake) Name() string { return f.name }

func (f *fake) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, r)
	if len(f.next) > 0 {
		err := f.next[0]
		f.next = f.next[1:]
		if err != nil {
			return chunk.Verified{}, err
		}
	}
	return chunk.Check(r.ID, theObject)
}

var (
	errDown  = errors.New("connection refused")
	errWrong = fmt.Errorf("get: %w", &chunk.WrongBytesError{})
)

// TestFind: an Optional request waits for a source that is down, but not if the sources do not have the object, or
// have it only with wrong bytes.
func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		next []error
		want error
		asks int
	}{
		"away for a while":   {repeat(errDown, 3), nil, 4},
		"missing":            {repeat(ErrMissing, 9), ErrMissing, 1},
		"away, then missing": {[]error{errDown, ErrMissing}, ErrMissing, 2},
		"wrong":              {repeat(errWrong, 9), errWrong, 2}, // a source that sent wrong bytes is asked once more
		"wrong once":         {repeat(errWrong, 1), nil, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{name: "a", next: c.next}
			over, err := NewFailover(&observed{}, f)
			if err != nil {
				t.Fatal(err)
			}
			v, err := NewRetry(over, slog.New(slog.DiscardHandler)).
				Get(t.Context(), chunk.Request{ID: chunk.Sum(theObject), Optional: true})
			if !errors.Is(err, c.want) || err == nil && string(v.Stored()) != string(theObject) {
				t.Errorf("%s: %q, %v, want %v", name, v.Stored(), err, c.want)
			}
			if len(f.seen) != c.asks {
				t.Errorf("%s: asked %d times, want %d", name, len(f.seen), c.asks)
			}
		})
	}
}

func repeat(err error, n int) []error { return slices.Repeat([]error{err}, n) }

func TestFailover(t *testing.T) {
	for name, c := range map[string]struct {
		a, b   []error // of two sources
		err    bool
		failed []string
		bytes  string // source that gave the object
	}{
		"first answers":     {nil, nil, false, nil, "a"},
		"first is down":     {repeat(errDown, 1), nil, false, []string{"a failed"}, "b"},
		"first has no such": {repeat(ErrMissing, 1), nil, false, []string{"a missing"}, "b"},
		"wrong once":        {repeat(errWrong, 1), nil, false, []string{"a wrong"}, "a"},
		"wrong twice":       {repeat(errWrong, 2), nil, false, []string{"a wrong", "a wrong"}, "b"},
		"wrong, then down":  {[]error{errWrong, errDown}, nil, false, []string{"a wrong", "a failed"}, "b"},
		"both down":         {repeat(errDown, 1), repeat(errDown, 1), true, []string{"a failed", "b failed"}, ""},
		"wrong everywhere": {repeat(errWrong, 2), repeat(errWrong, 2), true,
			[]string{"a wrong", "a wrong", "b wrong", "b wrong"}, ""},
		"missing, second wrong": {repeat(ErrMissing, 1), repeat(errWrong, 1), false, []string{"a missing", "b wrong"},
			"b"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observed{}
			f, err := NewFailover(o, &fake{name: "a", next: c.a}, &fake{name: "b", next: c.b})
			if err != nil {
				t.Fatal(err)
			}
			v, err := f.Get(t.Context(), chunk.Request{ID: chunk.Sum(theObject)})
			if (err != nil) != c.err || err == nil && string(v.Stored()) != string(theObject) {
				t.Errorf("%q, %v", v.Stored(), err)
			}
			if !slices.Equal(o.failed, c.failed) {
				t.Errorf("reported %q, want %q", o.failed, c.failed)
			}
			if c.bytes != "" && o.bytes[c.bytes] != len(theObject) {
				t.Errorf("bytes by source: %v, want %d of %s", o.bytes, len(theObject), c.bytes)
			}
		})
	}
}

func TestFailoverStaysWithTheLastGood(t *testing.T) {
	a, b := &fake{name: "a", next: repeat(errDown, 1)}, &fake{name: "b"}
	f, err := NewFailover(&observed{}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := f.Get(t.Context(), chunk.Request{ID: chunk.Sum(theObject)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.seen) != 1 || len(b.seen) != 5 {
		t.Errorf("%d requests to a, %d to b; want 1, 5", len(a.seen), len(b.seen))
	}
	if _, err := NewFailover(&observed{}); err == nil {
		t.Error("a Failover over nothing")
	}
}

// TestFailoverAsksFresh: after wrong bytes, the next request makes caches on the way revalidate.
func TestFailoverAsksFresh(t *testing.T) {
	a := &fake{name: "a", next: repeat(errWrong, 1)}
	f, _ := NewFailover(&observed{}, a)
	if _, err := f.Get(t.Context(), chunk.Request{ID: chunk.Sum(theObject)}); err != nil {
		t.Fatal(err)
	}
	if a.seen[0].Fresh || !a.seen[1].Fresh {
		t.Errorf("fresh: %v, %v; want false, true", a.seen[0].Fresh, a.seen[1].Fresh)
	}
}

func TestPatienceGrows(t *testing.T) {
	for _, c := range []struct {
		sources, attempt int
		want             time.Duration
	}{{1, 0, 10 * time.Second}, {1, 1, 20 * time.Second}, {1, 99, time.Minute}, {2, 0, 3 * time.Second},
		{3, 2, 12 * time.Second}} {
		if got := patience(c.sources, c.attempt); got != c.want {
			t.Errorf("%d sources, attempt %d: %v, want %v", c.sources, c.attempt, got, c.want)
		}
	}
}

func TestPause(t *testing.T) {
	least := func(int64) int64 { return 0 }
	most := func(n int64) int64 { return n - 1 }
	for attempt, want := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond,
		5: 1600 * time.Millisecond, 6: 2 * time.Second, 1000: 2 * time.Second} {
		if lo, hi := pause(attempt, least), pause(attempt, most); lo != want/2 || hi != want {
			t.Errorf("attempt %d: %v to %v, want %v to %v", attempt, lo, hi, want/2, want)
		}
	}
}

// TestRetryOutlivesAnOutage: if a server is down for two minutes, a request takes at most one pause longer and does
// not fail.
func TestRetryOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := time.Now().Add(120 * time.Second)
		tries := 0
		r := NewRetry(chunk.SourceFunc(func(ctx context.Context, q chunk.Request) (chunk.Verified, error) {
			tries++
			if time.Now().Before(back) {
				return chunk.Verified{}, errDown
			}
			return chunk.Check(q.ID, theObject)
		}), quiet())
		if _, err := r.Get(t.Context(), chunk.Request{ID: chunk.Sum(theObject)}); err != nil {
			t.Errorf("read over an outage: %v", err)
		}
		if late := time.Since(back); late > pauseMost {
			t.Errorf("read came back %v after the server", late)
		}
		if tries > 130 {
			t.Errorf("%d attempts in two minutes", tries)
		}
	})
}

// TestRetryWakesTheOthers: when one request succeeds, the waiting ones try at once.
func TestRetryWakesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		up := false
		r := NewRetry(chunk.SourceFunc(func(ctx context.Context, q chunk.Request) (chunk.Verified, error) {
			mu.Lock()
			defer mu.Unlock()
			if !up {
				return chunk.Verified{}, errDown
			}
			return chunk.Check(q.ID, theObject)
		}), quiet())
		var readers sync.WaitGroup
		ends := make([]time.Time, 20)
		for i := range ends {
			readers.Go(func() {
				r.Get(t.Context(), chunk.Request{ID: chunk.Sum(theObject)})
				ends[i] = time.Now()
			})
		}
		<-time.After(time.Minute)
		mu.Lock()
		up = true
		mu.Unlock()
		readers.Wait()
		slices.SortFunc(ends, time.Time.Compare)
		if spread := ends[len(ends)-1].Sub(ends[0]); spread > 0 {
			t.Errorf("the last reader came back %v after the first", spread)
		}
	})
}

func TestRetryGivesUpWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := NewRetry(chunk.SourceFunc(func(context.Context, chunk.Request) (chunk.Verified, error) {
		cancel()
		return chunk.Verified{}, errDown
	}), quiet())
	if _, err := r.Get(ctx, chunk.Request{ID: chunk.Sum(theObject)}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want cancelled", err)
	}
}
