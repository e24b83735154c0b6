package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
)

// A rival's failed run is repeated once. Pando's runs, and runs that were too slow or interrupted, are not.
func TestRepeated(t *testing.T) {
	bad, gone := errors.New("EOF"), context.Canceled
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		name, system string
		ctx          context.Context
		errs         []error
		kept         bool
		runs         int
		want         error
	}{
		{"good", "nbd", t.Context(), []error{nil}, false, 1, nil},
		{"bad, then good", "nbd", t.Context(), []error{bad, nil}, false, 2, nil},
		{"bad twice", "nbd", t.Context(), []error{bad, bad}, false, 2, bad},
		{"Pando", bestName(), t.Context(), []error{bad, nil}, false, 1, bad},
		{"Pando's machines", bench.PandoWay, t.Context(), []error{bad, nil}, false, 1, bad},
		{"some of it is kept", "nfs", t.Context(), []error{bad, nil}, true, 1, bad},
		{"interrupted", "nbd", stopped, []error{gone, nil}, false, 1, gone},
		{"too late", "nbd", t.Context(), []error{fmt.Errorf("node 1: %w", &lateRun{time.Minute}), nil}, false, 1,
			&lateRun{}},
	} {
		runs, told := 0, 0
		_, err := repeated(
			x.ctx,
			x.system,
			func(int) bool { return x.kept },
			func(error) { told++ },
			func() (int, error) {
				runs++
				return runs, x.errs[runs-1]
			},
		)
		late := (*lateRun)(nil)
		if same := errors.Is(err, x.want) || errors.As(x.want, &late) && errors.As(err, &late); runs != x.runs ||
			told != runs-1 ||
			!same {
			t.Errorf("%s: %d runs, told %d times, %v", x.name, runs, told, err)
		}
	}
}

// A failed run is kept apart from runs with figures, with a reason that does not contain the lab's directory.
func TestNothingIsKept(t *testing.T) {
	var out bytes.Buffer
	s := &Storm{release: "v1"}
	s.Place = bench.Place{Dir: "/srv/build/storm", Out: &out, Err: &out}
	bad := errors.New("node 5: nbdkit ended at once; its log is " + s.Dir + "/nodes/5/nbdkit.log")
	x, err := s.runOrRepeat(
		t.Context(),
		job{System: "nbd", Nodes: 10, Node: 150e6},
		func() (stormRun, error) { return stormRun{Each: make([]nodeRun, 10)}, bad },
	)
	if !errors.Is(err, bad) || x.Began.IsZero() || x.Release != s.release ||
		strings.Count(out.String(), "tried once more") != 1 {
		t.Errorf("%+v, %v\n%s", x, err, &out)
	}
	r := &report{}
	r.add(x)
	r.add(stormRun{System: "nbd", Nodes: 10, Unit: 1, Last: 2})
	file := filepath.Join(t.TempDir(), "storm.json")
	if err := r.save(file); err != nil {
		t.Fatal(err)
	}
	r, err = bench.ReadJSON[report](file)
	if err != nil || len(r.Runs) != 1 || len(r.Failed) != 1 || len(r.kinds()) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if want := "node 5: nbdkit ended at once; its log is nodes/5/nbdkit.log"; r.Failed[0].Why != want {
		t.Errorf("got %q, want %q", r.Failed[0].Why, want)
	}
	if _, err := s.runOrRepeat(t.Context(), job{System: bestName()},
		func() (stormRun, error) { return stormRun{}, bad }); !errors.Is(
		err,
		bad,
	) ||
		strings.Count(out.String(), "tried once more") != 1 {
		t.Errorf("Pando: %v\n%s", err, &out)
	}
}

// The same for emulated machines of a rival whose server does not start.
func TestGuestsOfNothing(t *testing.T) {
	var out bytes.Buffer
	s := &Storm{Testbed: testbed.Testbed{Place: bench.Place{Dir: t.TempDir(), Out: &out, Err: &out}}, guests: 2}
	runs := 0
	r, err := s.guestsOrRepeat(t.Context(), "nfs", func() (guestRun, error) {
		runs++
		return guestRun{System: "nfs", Guests: 2}, errors.New("no port")
	})
	if err == nil || runs != 2 || r.count() != "2, of which **0 booted**" || r.Failed[0] != "no port" {
		t.Errorf("%d runs: %+v, %v", runs, r, err)
	}
}

// brokenNbdkit puts an nbdkit that fails the given number of times before the real one.
func brokenNbdkit(t *testing.T, times int) {
	t.Helper()
	nbdkit, err := exec.LookPath("nbdkit")
	if err != nil {
		t.Skip("no nbdkit: scripts/install-packages rivals")
	}
	dir := t.TempDir()
	script := fmt.Sprintf(
		"#!/bin/sh\necho x >> %[1]s/runs\n[ $(wc -l < %[1]s/runs) -gt %[2]d ] && exec %[3]s \"$@\"\necho cannot "+
			"bind >&2\nexit 7\n",
		dir,
		times,
		nbdkit,
	)
	if err := os.WriteFile(filepath.Join(dir, "nbdkit"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// A failure of Pando ends the measurement at once. Earlier results are on disk, and the command names the file.
func TestStormWithABrokenPando(t *testing.T) {
	needFull(t)
	s, out := newTestStorm(t, "--nodes", "1", "--think", "0.1", "--systems", "chunks,pack,prefetch")
	runs := 0
	s.ready = func() {
		if runs++; runs == 2 {
			// the daemon then cannot make its socket
			if err := os.RemoveAll(filepath.Join(s.Dir, "nodes", "0")); err != nil {
				t.Error(err)
			}
		}
	}
	err := s.Measure(t.Context())
	r, readErr := bench.ReadJSON[report](filepath.Join(s.Dir, "storm.json"))
	if err == nil || readErr != nil || runs != 2 || len(r.Runs) != 1 || len(r.Failed) != 0 {
		t.Errorf("%d runs begun; %+v, %v, %v\n%s", runs, r, err, readErr, out)
	}
	nothingLeft(t, s)
}

// A rival whose program does not start loses no results of other systems, and the command fails at its end.
func TestStormWithABrokenRival(t *testing.T) {
	needFull(t)
	for _, broken := range []int{1, 2} {
		s, out := newTestStorm(t, "--nodes", "1", "--think", "0.1", "--systems", "chunks")
		brokenNbdkit(t, broken)
		s.wanted = []string{"chunks", "nbd", "prefetch"}
		err := s.Measure(t.Context())
		r, readErr := bench.ReadJSON[report](filepath.Join(s.Dir, "storm.json"))
		if readErr != nil {
			t.Fatalf("%v\n%s", readErr, out)
		}
		good, bad := len(r.Runs), len(r.Failed)
		switch {
		case strings.Count(out.String(), "tried once more") != 1:
			t.Errorf("told:\n%s", out)
		case broken == 1 && (err != nil || good != 3 || bad != 0):
			t.Errorf("started the second time: %d good, %d failed, %v", good, bad, err)
		case broken == 2 && (err == nil || good != 2 || bad != 1 ||
			!strings.HasSuffix(r.Failed[0].Why, "which ends with: cannot bind")):
			t.Errorf("never started: %d good, %d failed (%+v), %v", good, bad, r.Failed, err)
		}
		nothingLeft(t, s)
	}
}
