package storm

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/cache"
	"pando/internal/chunk"
)

func TestFaultFlags(t *testing.T) {
	s, err := New(others(), []string{"--nodes", "10", "--systems", "chunks", "--fault", "all"}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	plan := s.plan()
	if len(plan) != len(faults()) || plan[0].Fault != noFault || plan[0].Nodes != 10 || plan[0].System != bestName() {
		t.Errorf("the storm without a fault comes first: got %+v", plan)
	}
	for args, want := range map[string]bool{"--fault all": true, "--fault all --tell=false": false,
		"--rate 1mbit": false} {
		if s, err := New(others(), append([]string{"--nodes", "10", "--systems", "chunks"}, strings.Fields(args)...),
			io.Discard, io.Discard); err != nil ||
			s.tell != want {
			t.Errorf("%s: its nodes tell the server: %t, %v", args, s.tell, err)
		}
	}
	for _, args := range [][]string{{"--fault", "meteor"}, {"--nodes", "1", "--fault", "all"}, {"--guests", "9"}} {
		if _, err := New(others(), append([]string{"--systems", "chunks"}, args...), io.Discard,
			io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	if affected(10) != 2 || affected(2) != 1 || affected(40) != 8 {
		t.Errorf("a fifth: got %d, %d, %d", affected(10), affected(2), affected(40))
	}
}

// A killed node has no times; the other nodes count.
func TestFaultRows(t *testing.T) {
	node := nodeRun{
		Booted: 20,
		Taken:  bench.Usage{Rejected: 2, Incidents: map[string]int{"peer-left": 1, "peer-banned": 2}},
	}
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
		if x[0] == "peers-killed" &&
			(x[2] != "2, 1 of them killed" || x[3] != "1" || x[4] != "2" || x[5] != "2.00" ||
				x[6] != "peer-banned 2, 1 of 1 nodes; peer-left 1, 1 of 1 nodes" || x[7] != eachFed.text) {
			t.Errorf("got %q", x)
		}
	}
	// A later run replaces an earlier one, and is compared with the run without a fault of its own measurement.
	for _, last := range []float64{60, 15} {
		x := r.Faults[0]
		x.Fault, x.Last, x.Began = noFault, last, time.Unix(int64(100-last), 0)
		r.add(x)
		x.Fault, x.Last = "peers-killed", 2*last
		r.add(x)
	}
	if rows := r.faultRows(); rows[1][0] != "peers-killed" || rows[1][5] != "2.00" {
		t.Errorf("got %q", rows)
	}
	if len(r.Runs) != 0 || len(r.faultRows()) != 2 {
		t.Errorf("%d storms, %d faults", len(r.Runs), len(r.faultRows()))
	}
}

// Clocks are wrong by turns: the first is ahead, the next behind.
func TestSkew(t *testing.T) {
	if a, b, c := skewOf(time.Hour, 0), skewOf(time.Hour, 1), skewOf(0, 1); a != time.Hour || b != -time.Hour ||
		c != 0 {
		t.Errorf("got %v, %v, %v", a, b, c)
	}
}

// Each state of the cache disks is as its name says, and leaves the disks unchanged from which it was made.
func TestCacheDisks(t *testing.T) {
	s, m, nodes := &Storm{
		Testbed: testbed.Testbed{Place: bench.Place{Dir: t.TempDir()}},
	}, &testbed.Material{
		BootSet: 1 << 20,
		Read:    2 << 20,
	}, []*node{
		{},
		{},
	}
	if _, err := s.cacheDisks(t.Context(), m, job{Fault: "cache-warm"}, nodes); err == nil ||
		!strings.Contains(err.Error(), "cache-empty") {
		t.Errorf("nothing was booted before: %v", err)
	}
	var objects []chunk.Verified
	for i := range 8 {
		b := make([]byte, 120_000)
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(b) // never fails
		v, err := chunk.Check(chunk.Sum(b), b)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, v)
	}
	for _, x := range []struct {
		fault          string
		least, most    int // objects on a disk at the beginning
		has            int // at most this many after more were stored
		fails, removed bool
	}{
		{"cache-empty", 0, 0, 8, false, false}, {"cache-warm", 8, 8, 8, false, false},
		{"cache-read-only", 0, 0, 8, true, false},
		{"cache-full", 0, 0, 8, true, false}, {"cache-corrupt", 0, 7, 8, false, false},
		{"cache-removed", 8, 8, 0, true, true},
		{"cache-warm", 8, 8, 8, false, false},
	} {
		stop, err := s.cacheDisks(t.Context(), m, job{Fault: x.fault}, nodes)
		if err != nil {
			t.Fatalf("%s: %v", x.fault, err)
		}
		if x.removed {
			_ = s.disks.reads.Close() // no storm is running
		}
		failed := 0
		for i, n := range nodes {
			remove := func() error { return nil }
			if x.removed {
				remove = func() error { return os.Truncate(s.disks.files[i], 0) }
			}
			had, has, err := fill(n, objects, remove)
			if had < x.least || had > x.most || has > x.has || err != nil && !x.fails && x.fault != "cache-corrupt" {
				t.Errorf("%s, disk %d: it had %d objects, and has %d; %v", x.fault, i, had, has, err)
			}
			if err != nil {
				failed++
			}
		}
		if x.fails && failed == 0 {
			t.Errorf("%s: nothing failed", x.fault)
		}
		if err := stop(); err != nil {
			t.Errorf("%s: %v", x.fault, err)
		}
	}
}

// fill stores the missing objects on a node's disk. It counts those that were there before, and those that can be read
// afterwards.
func fill(n *node, objects []chunk.Verified, remove func() error) (had, has int, err error) {
	var failed error
	c, err := cache.Open(
		n.Disk.File,
		n.Disk.Size,
		cache.Options{Failed: func(err error) { failed = errors.Join(failed, err) }},
	)
	if err != nil {
		return 0, 0, err
	}
	count := func() (has int) {
		for _, v := range objects {
			if _, ok := c.Get(v.ID(), 0); ok {
				has++
			}
		}
		return has
	}
	had = count()
	failed = errors.Join(failed, remove())
	for _, v := range objects {
		if c.Wants(v.ID()) {
			failed = errors.Join(failed, c.Put(v))
		}
	}
	failed = errors.Join(failed, c.Sync())
	return had, count(), failed
}
