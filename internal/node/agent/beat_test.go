package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/api"
	"pando/internal/backoff"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// received is one request of an agent as its server sees it.
type received struct {
	at    time.Duration
	bytes int
	api.ReportRequest
}

// transport is an http.RoundTripper that is a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// listening returns an agent whose boot is over, and the requests that its server receives.
func listening(t *testing.T) (*Agent, *[]received) {
	t.Helper()
	var got []received
	begun := time.Now()
	server := control.Over(
		[]string{"https://server"},
		transport(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			h := received{at: time.Since(begun), bytes: len(body)}
			if err := json.Unmarshal(body, &h.ReportRequest); err != nil {
				return nil, err
			}
			got = append(got, h)
			return &http.Response{
				StatusCode: http.StatusNoContent,
				Body:       io.NopCloser(&bytes.Reader{}),
				Request:    r,
			}, nil
		}),
	)
	a := newAgent(&identity{dir: t.TempDir()}, server, io.Discard)
	a.status.root = "" // a root whose free space does not change
	a.status.systemd = &api.Systemd{State: "running", Units: make([]api.UnitTime, 12)}
	a.record.up.Store(true)
	return a, &got
}

// testAgent is an agent without a server.
func testAgent(t *testing.T, s rundir.Session) *Agent {
	t.Helper()
	none := func(*http.Request) (*http.Response, error) { return nil, errors.New("there is no server") }
	return newAgent(&identity{dir: t.TempDir(), session: s}, control.Over(nil, transport(none)), t.Output())
}

// An idle node sends a short heartbeat about once a minute, at random times. Any other report replaces the heartbeat.
func TestIdleAgentGivesSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, got := listening(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		const told = 30*time.Minute + time.Second
		time.AfterFunc(told, func() {
			if err := a.post(ctx, []trace.Event{{Stage: "desktop", Kind: trace.End}}); err != nil {
				t.Error(err)
			}
		})
		for backoff.Sleep(ctx, 0) == nil {
			a.status.report(ctx)
			_ = backoff.Sleep(ctx, a.status.interval()) // it ends with ctx, like the agent's loop
		}
		gaps := map[time.Duration]int{}
		for i, h := range *got {
			switch {
			case i == 0 && h.Status == nil:
				t.Errorf("begins without figures: %+v", h)
			case i > 0 && (h.Status != nil || h.bytes > 200 || len(h.Events) > 0 != (h.at == told)):
				t.Errorf("a sign of life of %d bytes: %+v", h.bytes, h)
			}
			if i > 0 {
				gap := h.at - (*got)[i-1].at
				if gaps[gap]++; gap > beatEvery*5/4+lookEvery || gap < beatEvery*3/4 && h.at != told {
					t.Errorf("silent for %s until %s", gap, h.at)
				}
			}
		}
		if len(gaps) < 3 {
			t.Errorf("signs of life in step: %v", gaps)
		}
	})
}

// The report of the state is sent when it changed, and not with every status.
func TestStateIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, got := listening(t)
		var told []string
		for _, text := range []string{"", "on\tdisk\tdisk\n", "on\tdisk\tdisk\n",
			"on\tdisk\tdisk\nkept\t/srv\t-\t7\n"} {
			if err := os.WriteFile(filepath.Join(a.who.dir, fleet.StateReport), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			a.status.sent = time.Time{} // a full status is due
			a.status.report(t.Context())
			told = append(told, (*got)[len(*got)-1].Status.State)
		}
		if want := []string{"", "on\tdisk\tdisk\n", "", "on\tdisk\tdisk\nkept\t/srv\t-\t7\n"}; !slices.Equal(
			told,
			want,
		) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
