package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pando/internal/testkit"
)

func TestFaultFlags(t *testing.T) {
	s, err := newStorm([]string{"--nodes", "10", "--systems", "chunks", "--fault", "all"}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	plan := s.plan()
	if len(plan) != len(faults()) || plan[0].Fault != noFault || plan[0].Nodes != 10 || plan[0].System != bestName() {
		t.Errorf("the storm without a fault comes first: got %+v", plan)
	}
	for _, args := range [][]string{{"--fault", "meteor"}, {"--nodes", "1", "--fault", "all"}, {"--guests", "9"}} {
		if _, err := newStorm(append([]string{"--systems", "chunks"}, args...), io.Discard, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	if affected(10) != 2 || affected(2) != 1 || affected(40) != 8 {
		t.Errorf("a fifth: got %d, %d, %d", affected(10), affected(2), affected(40))
	}
}

// A killed node has no times, and the others count.
func TestFaultRows(t *testing.T) {
	node := nodeRun{Booted: 20, Taken: taken{Rejected: 2, Incidents: map[string]int{"peer-left": 1, "peer-banned": 2}}}
	r := &report{}
	for name, last := range map[string]float64{noFault: 10, "peers-killed": 20} {
		x := stormRun{Fault: name, System: bestName(), Nodes: 2, Unit: 5, Each: []nodeRun{{Killed: true}, node}}
		x.Each[1].Booted = last
		if err := x.finish(); err != nil || x.Last != last || x.First != last {
			t.Fatalf("%s: first %g, last %g, %v", name, x.First, x.Last, err)
		}
		r.add(x)
	}
	for _, x := range r.faultRows() {
		if x[0] == "peers-killed" && (x[2] != "2, 1 of them killed" || x[3] != "1" || x[4] != "2" || x[5] != "2.00" || x[6] != "peer-banned 2, peer-left 1") {
			t.Errorf("got %q", x)
		}
	}
	if len(r.Runs) != 0 || len(r.faultRows()) != 2 {
		t.Errorf("%d storms, %d faults", len(r.Runs), len(r.faultRows()))
	}
}

// Each kind of bad peer does to an object what it is called for, and nothing to what peers tell each other.
func TestBadPeer(t *testing.T) {
	want := bytes.Repeat([]byte("piece"), 1000)
	good := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		_, _ = w.Write(want)
	})
	for as, check := range map[string]func(got []byte, err error) bool{
		"corrupt": func(got []byte, err error) bool {
			return err == nil && len(got) == len(want) && !bytes.Equal(got, want)
		},
		"short":   func(_ []byte, err error) bool { return err != nil },
		"endless": func(got []byte, err error) bool { return err == nil && len(got) == 10*len(want) },
		"slow":    func(got []byte, err error) bool { return err == nil && bytes.Equal(got, want) },
	} {
		srv := httptest.NewServer((&badPeer{as: as, rate: testkit.Gbit}).spoil(good))
		fetch := func(path string) ([]byte, error) {
			resp, err := http.Get(srv.URL + path)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			return io.ReadAll(io.LimitReader(resp.Body, int64(10*len(want))))
		}
		if got, err := fetch("/o/1"); !check(got, err) {
			t.Errorf("%s: got %d bytes, %v", as, len(got), err)
		}
		if got, err := fetch("/have"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: what is no object was changed (%v)", as, err)
		}
		srv.Close()
	}
}

// Of some machines whose clocks are wrong the first is ahead, the next behind.
func TestSkew(t *testing.T) {
	if a, b, c := skewOf(time.Hour, 0), skewOf(time.Hour, 1), skewOf(0, 1); a != time.Hour || b != -time.Hour || c != 0 {
		t.Errorf("got %v, %v, %v", a, b, c)
	}
}
