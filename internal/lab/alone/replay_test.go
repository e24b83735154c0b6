package alone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/chunk"
	"pando/internal/lab/rivals"
	"pando/internal/testkit"
)

func TestReplayFlags(t *testing.T) {
	for args, want := range map[string]string{"--replay --wall": "without --wall",
		"--replay --ways nfs": "there is no nfs without a kernel"} {
		if _, err := New(others(), strings.Fields(args), io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	a, err := New(others(), []string{"--replay", "--ways", "pando,disk"}, io.Discard, io.Discard)
	if err != nil || a.clockName() != byReplay {
		t.Errorf("%v, by %s", err, a.clockName())
	}
}

// A replayed boot works as long as the measured boot from the disk, of the same version.
func TestDiskWork(t *testing.T) {
	a := &Alone{Testbed: testbed.Testbed{Place: bench.Place{Dir: t.TempDir()}}}
	m := &testbed.Material{Image: &bench.Image{Version: "v"}}
	keep := func(r result) {
		b, err := json.Marshal(r)
		if err == nil {
			err = os.WriteFile(filepath.Join(a.Dir, "alone.json"), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.diskWork(m); err == nil || !strings.Contains(err.Error(), "--ways disk") {
		t.Errorf("nothing was measured: %v", err)
	}
	keep(result{Version: "w", Seconds: map[string][]float64{"disk": {4}}})
	if _, err := a.diskWork(m); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("of another version: %v", err)
	}
	keep(result{Version: "v", Seconds: map[string][]float64{"disk": {5, 4, 3}}})
	if work, err := a.diskWork(m); err != nil || work != 4 {
		t.Errorf("%g s, %v, want the median", work, err)
	}
}

// Waits are counted by their part of the boot's work; time that is neither wait nor work is counted apart.
func TestWaited(t *testing.T) {
	const ms = time.Millisecond
	bursts := []testbed.Burst{
		{First: 0, End: 1},
		{First: 1, End: 3, Think: 4 * ms},
		{First: 3, End: 4, Think: 3 * ms},
		{First: 4, End: 5, Think: 93 * ms},
	}
	got := waited([]time.Duration{ms, 2 * ms, 5 * ms, 7 * ms, 11 * ms}, bursts)
	want := make([]float64, workParts)
	want[0], want[1], want[19] = 0.006, 0.007, 0.011
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }) {
		t.Errorf("waited %v, want %v", got, want)
	}
	r := result{
		ways:    ways(rivals.Kernel()),
		Clock:   byReplay,
		Work:    1,
		Seconds: map[string][]float64{bench.PandoWay: {1.124}},
		Waited:  map[string][][]float64{bench.PandoWay: {want}},
	}
	if line := strings.Fields(r.waits()[strings.Index(r.waits(), bench.PandoWay):]); !slices.Equal(
		line,
		[]string{bench.PandoWay, "0.01", "0.01", "0.01", "0.10"},
	) {
		t.Errorf("told as %q", line)
	}
	if (&result{Clock: byReplay}).waits() != "" {
		t.Error("nothing was measured")
	}
}

// The worker uses the whole processor time before it returns, and stops when its context ends.
func TestWorker(t *testing.T) {
	w, release, err := newWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	before, _ := threadTime()
	for range 10 {
		if err := w.think(t.Context(), 2*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	after, err := threadTime()
	if had := after - before; err != nil || had < 19*time.Millisecond {
		t.Errorf("it worked for %s, want 20 ms, %v", had, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if err := w.think(ctx, time.Hour); err == nil || err.Error() != "enough" {
		t.Errorf("given up: %v", err)
	}
}

// The table of a replay says what was replayed, and how.
func TestReplayIsTold(t *testing.T) {
	a, err := New(others(), []string{"--replay"}, io.Discard, io.Discard)
	if err != nil {
		t.Skip(err) // a program is missing
	}
	r := &result{
		ways:    a.printed(),
		Clock:   byReplay,
		Work:    4,
		Machine: "2 processors",
		Seconds: map[string][]float64{"pando": {4.2}, "nbd-erofs": {4.4}, "disk": {4.1}},
	}
	for _, want := range []string{"No machine was started", "works for 4.00 s", "1gbit", "nbdkit, the raw " +
		"image", "this machine's disk"} {
		if !strings.Contains(r.table(), want) {
			t.Errorf("no %q in\n%s", want, r.table())
		}
	}
	if r.file() != "alone-replay.json" {
		t.Errorf("it is in %s", r.file())
	}
}

// A boot replayed with Pando reads from a block daemon with a boot pack, and works between its reads.
func TestReplayByPando(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	bin, err := filepath.Abs("../../../build/bin")
	if err == nil {
		_, err = os.Stat(filepath.Join(bin, "pando-init"))
	}
	if err != nil {
		t.Skipf("%v (make build makes it)", err)
	}
	dir, err := os.MkdirTemp("", "alone") // short: there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	root := make([]byte, 1024*chunk.BlockSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(root) // never fails
	v, err := testkit.RecordedVersion(t.Context(), filepath.Join(dir, "data"), root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a, err := New(bench.Others{}, []string{"--dir", dir, "--image", string(v), "--replay"}, &out, &out)
	if err != nil {
		t.Fatal(err)
	}
	a.Bin = bin
	a.Star, err = testkit.NewStar(t.Context(), testkit.StarConfig{Prefix: "alone", Server: bench.Network, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Star.Close()
	if err := a.Serve(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	defer func() { a.Site.Close() }()
	m, err := a.Material(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := a.replayNode(m)
	if err != nil {
		t.Fatal(err)
	}
	attach, stop, err := a.serveReplay(t.Context(), bench.PandoWay, n)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	defer stop()
	b, err := replayBoot(t.Context(), attach, m, 200*time.Millisecond)
	if err != nil || b.attached <= 0 || b.booted < b.attached+0.2+b.stalled-0.01 || len(b.waited) != workParts ||
		b.cpu <= 0 {
		t.Errorf("%+v, %v", b, err)
	}
}
