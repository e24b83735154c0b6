package lease

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/blockapi"
	"pando/internal/link"
	"pando/internal/rundir"
)

// keeping runs a renewLoop for d on a fake clock and returns when it renewed, and in which way.
func keeping(t *testing.T, d time.Duration, l link.Lease, k renewLoop) (at []time.Duration, how []renewal) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		now := func() time.Duration { return time.Since(begun) }
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		renew := k.renew
		k.now = now
		k.renew = func(ctx context.Context, l link.Lease, what renewal) (link.Lease, error) {
			if at, how = append(at, now()), append(how, what); len(at) > 1000 {
				cancel()
			}
			l, err := renew(ctx, l, what)
			l.Acquired = now()
			return l, err
		}
		if k.use == nil {
			k.use = func(context.Context, link.Lease, link.Lease) error { return nil }
		}
		k.say = func(string, string) {}
		k.run(ctx, l)
	})
	return at, how
}

func granted(_ context.Context, l link.Lease, _ renewal) (link.Lease, error) { return l, nil }

// A server that gives leases of length zero, or with T1 zero, does not get requests without a pause.
func TestRenewLoopPauses(t *testing.T) {
	for _, l := range []link.Lease{{}, {Length: time.Hour, Rebind: time.Hour},
		{Length: time.Millisecond, Renew: 1, Rebind: 2}} {
		at, _ := keeping(t, time.Hour, l, renewLoop{renew: granted})
		if len(at) == 0 || len(at) > int(time.Hour/minPause) {
			t.Errorf("lease %+v: asked %d times in an hour", l, len(at))
		}
	}
}

func TestRenewLoopRenewsAtT1(t *testing.T) {
	at, how := keeping(
		t,
		119*time.Minute,
		link.Lease{Length: time.Hour, Renew: 30 * time.Minute, Rebind: 50 * time.Minute},
		renewLoop{renew: granted},
	)
	if !slices.Equal(at, []time.Duration{30 * time.Minute, time.Hour, 90 * time.Minute}) ||
		!slices.Equal(how, []renewal{ask, ask, ask}) {
		t.Errorf("asked at %v in the ways %v", at, how)
	}
}

// After a NAK the next request is for any address, at once; after a NAK to that there is a pause.
func TestRenewLoopNak(t *testing.T) {
	at, how := keeping(
		t,
		39*time.Minute,
		link.Lease{Length: time.Hour, Renew: 30 * time.Minute, Rebind: 50 * time.Minute},
		renewLoop{renew: func(_ context.Context, l link.Lease, _ renewal) (link.Lease, error) { return l, errNak }},
	)
	if !slices.Equal(at, []time.Duration{30 * time.Minute, 30 * time.Minute}) ||
		!slices.Equal(how, []renewal{ask, discover}) {
		t.Errorf("asked at %v in the ways %v", at, how)
	}
}

// After a lease has expired a new one is requested once a minute, and the first one that comes is used.
func TestRenewLoopExpiry(t *testing.T) {
	tries := 0
	at, how := keeping(t, 5*time.Minute, link.Lease{}, renewLoop{
		renew: func(_ context.Context, l link.Lease, _ renewal) (link.Lease, error) {
			if tries++; tries < 3 {
				return l, errors.New("no answer")
			}
			l.Length, l.Renew, l.Rebind = time.Hour, 30*time.Minute, 50*time.Minute
			return l, nil
		}})
	if len(at) != 3 || how[0] != discover || how[2] != discover || at[2]-at[1] != minRenew {
		t.Errorf("asked at %v in the ways %v", at, how)
	}
}

// A daemon that is being replaced gets the new lease again later; until then the old lease is kept up.
func TestRenewLoopTellsUntilTaken(t *testing.T) {
	old := link.Lease{
		Address: netip.MustParsePrefix("10.0.0.1/24"),
		Length:  time.Hour,
		Renew:   30 * time.Minute,
		Rebind:  50 * time.Minute,
	}
	told := 0
	keeping(t, 40*time.Minute, old, renewLoop{
		renew: func(_ context.Context, l link.Lease, _ renewal) (link.Lease, error) {
			l.Address = netip.MustParsePrefix("10.0.0.2/24")
			return l, nil
		},
		use: func(_ context.Context, was, l link.Lease) error {
			if told++; was.Address != old.Address || l.Address == old.Address {
				t.Errorf("told %d: %v in place of %v", told, l.Address, was.Address)
			}
			if told < 20 {
				return errors.New("nobody listens")
			}
			return nil
		}})
	if told != 20 {
		t.Errorf("told %d times, want until it was taken and not again", told)
	}
}

// The new lease is recorded after the daemon has it, not before.
func TestUseLease(t *testing.T) {
	dir := t.TempDir()
	daemon := blockapi.Client{Socket: filepath.Join(dir, "s")}
	a := &Renewer{Dir: dir, Network: daemon, Log: t.Output()}
	l := link.Lease{Interface: 1 << 30, Name: "none", Address: netip.MustParsePrefix("10.0.0.2/24")}
	if err := a.use(t.Context(), l, l); err == nil {
		t.Error("no daemon, and no error")
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.LeaseName)); err == nil {
		t.Error("a lease is on record that the daemon does not keep up")
	}
	var got link.Network
	listener, err := net.Listen("unix", daemon.Socket)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&got)
	}))
	s.Listener = listener
	s.Start()
	defer s.Close()
	if err := a.use(t.Context(), l, l); err != nil || len(got.Addresses) != 1 || got.Addresses[0] != l.Address {
		t.Errorf("%v, the daemon got %+v", err, got)
	}
	var kept link.Lease
	if err := rundir.ReadJSON(dir, rundir.LeaseName, &kept); err != nil || kept.Address != l.Address {
		t.Errorf("on record: %+v, %v", kept, err)
	}
}
