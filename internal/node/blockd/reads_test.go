package blockd

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/blockapi"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// Reads are recorded as whole blocks, in order, with the time since the device was ready, until the recording ends.
func TestReadRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReadRecorder(false)
		r.note(0, 4096) // before the device is ready
		r.begin()
		time.Sleep(1500 * time.Millisecond)
		r.note(40960, 131072)
		time.Sleep(time.Second)
		r.note(5000, 10) // within a block
		r.note(8000, 400)
		r.note(12288, 0)
		want := []trace.Read{{Start: 0, Blocks: 1}, {Start: 10, Blocks: 32, At: 1500 * time.Millisecond},
			{Start: 1, Blocks: 1, At: 2500 * time.Millisecond}, {Start: 1, Blocks: 2, At: 2500 * time.Millisecond}}
		asked := 0
		account := func(b *blockapi.Recording) { asked++; b.Hits = int64(asked) }
		first := r.end(account)
		r.note(0, 4096)
		again := r.end(account)
		for _, b := range []blockapi.Recording{first, again} {
			got, err := trace.DecodeReads(b.Reads)
			if b.Began <= 0 || b.Began > rundir.Monotonic() {
				t.Errorf("the recording began at %s, which is not a moment of this test", b.Began)
			}
			if err != nil || !slices.Equal(got, want) || b.Count != len(want) || b.Partial || b.Hits != 1 {
				t.Errorf("recorded %+v (%d, partial %v, hits %d), %v", got, b.Count, b.Partial, b.Hits, err)
			}
		}
	})
}

// A recording is bounded, and says when reads were cut off. It is not partial: it has the beginning, which boot packs
// are made of.
func TestReadRecorderIsBounded(t *testing.T) {
	for _, reads := range []int{maxRecorded, maxRecorded + 1, 2 * maxRecorded} {
		r := newReadRecorder(false)
		r.begin()
		for i := range reads {
			r.note(int64(i%7*1000+i)*4096, 131072)
		}
		b := r.end(func(*blockapi.Recording) {})
		got, err := trace.DecodeReads(b.Reads)
		if err != nil || len(got) != maxRecorded || b.Count != maxRecorded || b.Cut != (reads > maxRecorded) ||
			b.Partial {
			t.Errorf(
				"%d reads (count %d) of %d, cut %v, partial %v, %v; want %d, not partial",
				len(got),
				b.Count,
				reads,
				b.Cut,
				b.Partial,
				err,
				maxRecorded,
			)
		}
	}
	if b := newReadRecorder(true).end(func(*blockapi.Recording) {}); !b.Partial {
		t.Error("what a daemon records that took over is called whole")
	}
}

func TestRecordingMessage(t *testing.T) {
	for want, b := range map[string]blockapi.Recording{
		"1526 reads of 62.0 MB recorded for the boot pack, 33.1 MB " +
			"received": {Count: 1526, Read: 62e6, Received: 33.1e6},
		"boot pack: 61.5 MB of 62.0 MB read were in it, 1.2 MB of it were not read, 21.0 MB received, 3.4 MB of " +
			"what it has for later were not read": {
			Pack: "p", Read: 62e6, Hits: 61.5e6, Wasted: 1.2e6, WastedLater: 3.4e6, Received: 21e6},
		"32768 reads of 900.0 MB recorded for the boot pack, 400.0 MB received; only the first 32768 reads are " +
			"recorded": {
			Count: 32768, Cut: true, Read: 900e6, Received: 400e6},
		"boot pack: 800.0 MB of 900.0 MB read were in it, 1.2 MB of it were not read, 400.0 MB received; only the " +
			"first 32768 reads are recorded": {
			Pack: "p", Count: 32768, Cut: true, Read: 900e6, Hits: 800e6, Wasted: 1.2e6, Received: 400e6},
		"boot pack: 61.5 MB of 62.0 MB read were in it, 1.2 MB of it were not read, 21.0 MB " +
			"received": {Pack: "p", Read: 62e6, Hits: 61.5e6, Wasted: 1.2e6, Received: 21e6},
	} {
		if got := b.Message(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
