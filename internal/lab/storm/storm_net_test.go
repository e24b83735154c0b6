package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/chunk"
	"pando/internal/lab/rivals"
	"pando/internal/testkit"
)

// testRoot is the size of the small root, in blocks.
const testRoot = 1024

// newTestStorm returns a storm with a data directory that has one small version and one recorded boot.
func newTestStorm(t *testing.T, args ...string) (*Storm, *bytes.Buffer) {
	t.Helper()
	return newTestStormOf(t, smallRoot(testRoot), args...)
}

// newTestStormOf is newTestStorm with the given root, which is whole chunks.
func newTestStormOf(t *testing.T, root []byte, args ...string) (*Storm, *bytes.Buffer) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	bin, err := filepath.Abs("../../../build/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"pando", "pando-init"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Skipf("%v (make build makes it)", err)
		}
	}
	dir, err := os.MkdirTemp("", "storm") // short: there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data := filepath.Join(dir, "data")
	version, err := testkit.RecordedVersion(t.Context(), data, root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := New(
		others(), append([]string{"--dir", dir, "--image", string(version), "--rate", "100mbit", "--busy"}, args...),
		&out,
		&out,
	)
	if err != nil {
		t.Fatal(err)
	}
	s.Bin = bin
	return s, &out
}

// smallRoot returns a root that compresses to about half, with some chunks of zeros.
func smallRoot(blocks int) []byte {
	r := rand.New(rand.NewPCG(5, 6))
	root := make([]byte, blocks*chunk.BlockSize)
	for i := range root {
		if i/chunk.DefaultChunkSize%10 != 0 {
			root[i] = byte(r.IntN(16))
		}
	}
	return root
}

// Two nodes boot by each step of Pando, with a real server, links and block daemons. Every byte is compared, and the
// server sent the bytes that the nodes received from it.
func TestStormOfTwo(t *testing.T) {
	s, out := newTestStorm(t, "--nodes", "2", "--think", "0.1", "--systems", strings.Join(names(own()), ","))
	if err := s.Measure(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r report
	b, err := os.ReadFile(filepath.Join(s.Dir, "storm.json"))
	if err != nil || json.Unmarshal(b, &r) != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != len(own()) || r.Read == 0 || r.BootSet == 0 || r.BootSet >= r.Read {
		t.Fatalf("%d runs, W of %d, %d bytes read", len(r.Runs), r.BootSet, r.Read)
	}
	for _, x := range r.Runs {
		if len(x.Each) != 2 || x.Last < x.First || x.First <= 0 {
			t.Errorf("%s: nodes %d, first %g s, last %g s", x.System, len(x.Each), x.First, x.Last)
		}
		got := int64(0)
		for _, n := range x.Each {
			got += n.Taken.Received["server"]
			if n.Attached <= 0 || n.Attached > n.Booted || n.Taken.Failures > 0 || n.Taken.Memory == 0 {
				t.Errorf("%s: node %+v", x.System, n)
			}
			if n.Taken.Received["peer"] > 0 && x.System != "peers" {
				t.Errorf("%s: %d bytes came from peers", x.System, n.Taken.Received["peer"])
			}
			if packed := n.Taken.Served["pack"] > 0; packed != (x.System != "chunks") {
				t.Errorf("%s: %d bytes came from the boot pack", x.System, n.Taken.Served["pack"])
			}
		}
		if x.ServerSent <= got {
			t.Errorf(
				"%s: the server's link has %d bytes, the nodes received %d of objects",
				x.System,
				x.ServerSent,
				got,
			)
		}
	}
	nothingLeft(t, s)
}

// Rivals' programs read the same root over the same links. TestRivalsAttach runs all of them, with a file system.
func TestStormOfRivals(t *testing.T) {
	needFull(t)
	s, out := newTestStorm(t, "--nodes", "1,20", "--think", "0.1", "--systems", "chunks")
	s.wanted = nil
	for _, name := range []string{"nbd"} {
		if err := s.system(name).Check(s.Bin); err != nil {
			t.Skip(err)
		}
		s.wanted = append(s.wanted, name)
	}
	if err := s.Measure(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var r report
	b, err := os.ReadFile(filepath.Join(s.Dir, "storm.json"))
	if err != nil || json.Unmarshal(b, &r) != nil || len(r.Runs) != 1 {
		t.Fatalf("%d runs, want 1: none with 20 nodes (%v)", len(r.Runs), err)
	}
	for _, x := range r.Runs {
		if got := x.Each[0].Link; got < x.Read || x.ServerSent < x.Read {
			t.Errorf("%s: read %d bytes, received %d, the server's link has %d", x.System, x.Read, got, x.ServerSent)
		}
	}
	nothingLeft(t, s)
}

// A boot that cannot succeed, or Ctrl-C, ends the storm and leaves nothing behind.
func TestStormThatFailsLeavesNothing(t *testing.T) {
	s, out := newTestStorm(t, "--nodes", "1", "--systems", "chunks", "--think", "1000", "--rate", "1mbit")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	begun := make(chan error, 1)
	go func() { begun <- s.Measure(ctx) }()
	waitFor(t, func() bool { // the daemon runs
		_, err := os.Stat(filepath.Join(s.Dir, "nodes", "0", "block.sock"))
		return err == nil
	})
	cancel(context.Canceled)
	if err := <-begun; err == nil {
		t.Errorf("an interrupted storm ended well:\n%s", out)
	}
	nothingLeft(t, s)
}

func waitFor(t *testing.T, good func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !good() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it does not come")
		}
	}
}

// nothingLeft fails the test if namespaces or processes of the storm remain.
func nothingLeft(t *testing.T, s *Storm) {
	t.Helper()
	for _, n := range append(s.Star.Nodes, s.Star.Server) {
		if _, err := os.Stat("/run/netns/" + n.Name); err == nil {
			t.Errorf("namespace %s was left", n.Name)
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if at, err := os.Readlink(p); err == nil && strings.HasPrefix(at, s.Dir) {
			t.Errorf("process %s was left in %s", p, at)
		}
	}
}

func others() bench.Others { return bench.Others{Systems: rivals.All(), Kernel: rivals.Kernel()} }

// needFull skips a test that takes tens of seconds, unless PANDO_FULL is set.
func needFull(t *testing.T) {
	t.Helper()
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("takes long: PANDO_FULL is not set (make test-full sets it)")
	}
}
