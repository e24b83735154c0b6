package initrd

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"pando/internal/testkit/nodekit"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/trace"
)

func TestCheckAssignment(t *testing.T) {
	resp, cfg := nodekit.SignedAssignment(t, nil)
	if a, err := control.CheckAssignment(resp, cfg); err != nil || a.Node != "pc001" {
		t.Errorf("a good assignment: %+v, %v", a, err)
	}
	bad := map[string]func() (api.RegisterResponse, api.BootConfig){
		"flipped byte": func() (api.RegisterResponse, api.BootConfig) {
			r, c := nodekit.SignedAssignment(t, nil)
			r.Assignment[10] ^= 1
			return r, c
		},
		"no signature": func() (api.RegisterResponse, api.BootConfig) {
			r, c := nodekit.SignedAssignment(t, nil)
			r.Signature = nil
			return r, c
		},
		"signature without context": func() (api.RegisterResponse, api.BootConfig) {
			r, c := nodekit.SignedAssignment(t, nil)
			r.Signature = ed25519.Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), r.Assignment)
			return r, c
		},
		"another boot": func() (api.RegisterResponse, api.BootConfig) {
			return nodekit.SignedAssignment(t, func(a *fleet.Assignment) { a.Boot = "ffffffffffffffff" })
		},
		"newer format": func() (api.RegisterResponse, api.BootConfig) {
			return nodekit.SignedAssignment(t, func(a *fleet.Assignment) { a.Format = 2 })
		},
		"no version": func() (api.RegisterResponse, api.BootConfig) {
			return nodekit.SignedAssignment(t, func(a *fleet.Assignment) { a.Version = "" })
		},
		"no session": func() (api.RegisterResponse, api.BootConfig) {
			r, c := nodekit.SignedAssignment(t, nil)
			r.Session = ""
			return r, c
		},
	}
	for name, make := range bad {
		if a, err := control.CheckAssignment(make()); err == nil {
			t.Errorf("%s: taken as %+v", name, a)
		}
	}
}

func TestRegistrationProblem(t *testing.T) {
	used := registrationProblem(
		&control.Refused{Status: http.StatusUnauthorized, Err: api.NewError(api.Unauthorized, "token already "+
			"used", "reboot")},
		nil,
	)
	if !problem.IsFinal(used) || problem.HintOf(used) != "reboot" {
		t.Errorf("a used token: final %v, hint %q", problem.IsFinal(used), problem.HintOf(used))
	}
	for _, err := range []error{errors.New("connection " +
		"refused"), &control.Refused{Status: http.StatusServiceUnavailable}} {
		if problem.IsFinal(registrationProblem(err, nil)) {
			t.Errorf("%v is final, but the next try may do", err)
		}
	}
	if hint := problem.HintOf(registrationProblem(&api.WrongKeyError{}, nil)); !strings.Contains(hint, "key") {
		t.Errorf("hint for a wrong key: %q", hint)
	}
}

func FuzzCheckAssignment(f *testing.F) {
	f.Add([]byte(`{"format":1,"boot":"0011223344556677","node":"n","version":"sha256:"}`))
	f.Add([]byte(`{"files":[{"path":"/etc/x","mode":420}]}`))
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	cfg := api.BootConfig{Boot: "0011223344556677",
		ServerKey: base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))}
	f.Fuzz(func(t *testing.T, b []byte) {
		sig := ed25519.Sign(key, append([]byte(api.AssignmentContext), b...))
		a, err := control.CheckAssignment(api.RegisterResponse{Session: "s", Assignment: b, Signature: sig}, cfg)
		if err == nil && (a.Boot != cfg.Boot || a.Node == "") {
			t.Errorf("taken: %+v", a)
		}
	})
}

// A phase after registration may go back to the address phase. The token must not be used twice then.
func TestRegistrationIsSentOnce(t *testing.T) {
	sent := 0
	resp, cfg := nodekit.SignedAssignment(t, nil)
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, _ *http.Request) {
		sent++
		_ = json.NewEncoder(w).Encode(resp)
	})
	m := testMachine()
	m.timeline.config = cfg
	var err error
	if m.timeline.control, err = control.New([]string{url}, key, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, message, err := m.registration.register(t.Context(), Modules{}, Link{}, link.Lease{})
		if err != nil || got.Assignment.Node != "pc001" || got.Answer.Session != resp.Session {
			t.Fatalf("%q, %+v, %v", message, got, err)
		}
	}
	if sent != 1 || m.timeline.assigned().Node != "pc001" {
		t.Errorf("said %d times, assigned %+v", sent, m.timeline.assigned())
	}
}

// The runner reports on a slow registration while the registration stores its results.
func TestRegistrationWhileTheRunnerSpeaks(t *testing.T) {
	resp, cfg := nodekit.SignedAssignment(t, nil)
	speaking := make(chan struct{})
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, _ *http.Request) {
		<-speaking
		_ = json.NewEncoder(w).Encode(resp)
	})
	m := testMachine()
	m.timeline.config = cfg
	var err error
	if m.timeline.control, err = control.New([]string{url}, key, nil); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		_, _, err := m.registration.register(t.Context(), Modules{}, Link{}, link.Lease{})
		sent <- err
	}()
	m.timeline.event(trace.Event{Stage: trace.Register, Kind: trace.Begin})
	close(speaking)
	for done := false; !done; {
		m.timeline.event(trace.Event{Stage: trace.Register, Kind: trace.Info})
		m.timeline.rebootAfter()
		select {
		case err := <-sent:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
	}
	m.timeline.event(trace.Event{Stage: trace.Register, Kind: trace.End})
	if q := m.timeline.report.Take(); q[len(q)-1].Node != "pc001" {
		t.Errorf("event after hello: %+v", q[len(q)-1])
	}
}

func TestWrongClock(t *testing.T) {
	for off, want := range map[time.Duration]string{
		time.Hour: "clock: was 1h0m0s behind the server's, set to it", -90500 * time.Millisecond: "clock: was " +
			"1m31s ahead of the server's, set to it",
	} {
		if got := wrongClock(off); got != want {
			t.Errorf("%v: got %q, want %q", off, got, want)
		}
	}
}
