package registry

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// largeEvent returns an event of the largest size that a node may report.
func largeEvent(boot fleet.BootID, n int) trace.Event {
	e := anEvent(boot, trace.Booted, trace.Info)
	e.Offset = time.Duration(n + 1)
	e.Message, e.Hint = strings.Repeat("m", 2000), strings.Repeat("h", 2000)
	e.Attrs, e.Bytes = map[string]string{}, map[string]int64{}
	for i := range 16 {
		e.Attrs[fmt.Sprintf("%02d%s", i, strings.Repeat("k", 62))] = strings.Repeat("v", 2000)
		e.Bytes[fmt.Sprintf("%02d%s", i, strings.Repeat("s", 62))] = 1 << 60
	}
	return e
}

// storedBytes returns the bytes of events, as stored and as counted, and the size of the longest.
func storedBytes(t *testing.T, r *Registry, boot fleet.BootID) (bytes, counted, longest int64) {
	t.Helper()
	err := r.events.read.QueryRow(`SELECT coalesce(sum(length(body)), 0), coalesce(max(length(body)), 0),
		(SELECT total FROM event_bytes) FROM events WHERE ?1 = '' OR boot = ?1`, string(boot)).
		Scan(&bytes, &longest, &counted)
	if err != nil {
		t.Fatal(err)
	}
	return bytes, counted, longest
}

// TestBytesOfEvents: a node that reports large events without end stores a bounded number of bytes: for an event, for
// a boot, and for all boots together. The timeline says how many events are left out.
func TestBytesOfEvents(t *testing.T) {
	const fleetBytes = 3 << 20
	r, err := Open(t.Context(), Options{Dir: t.TempDir(), MaxEventBytes: fleetBytes})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const boots, reports, each = 6, 2, 150
	for b := range boots {
		id := fleet.BootID(fmt.Sprintf("b%d", b))
		for n := range reports {
			batch := make([]trace.Event, each)
			for i := range batch {
				batch[i] = largeEvent(id, n*each+i)
			}
			if _, err := r.Append(t.Context(), batch...); err != nil {
				t.Fatal(err)
			}
		}
		bytes, _, longest := storedBytes(t, r, id)
		if bytes > BytesPerBoot || longest > maxEvent {
			t.Fatalf("a boot has %d bytes of events, one of them %d", bytes, longest)
		}
		kept, err := r.Events(t.Context(), EventFilter{Boot: id})
		if err != nil || len(kept) < 50 {
			t.Fatalf("%d events are kept, %v", len(kept), err)
		}
		left := fmt.Sprintf("%d events left out", reports*each-(len(kept)-1))
		if told := kept[len(kept)-1].Message; !strings.HasPrefix(told, left) {
			t.Errorf("the timeline does not say %q: %.60s", left, told)
		}
	}
	// What nobody else displaces is pruned, now and then, with the others.
	small := make([]trace.Event, 1000)
	for i := range small {
		small[i] = anEvent(fleet.BootID(fmt.Sprint("s", i)), trace.Init, trace.End)
	}
	if _, err := r.Append(t.Context(), small...); err != nil {
		t.Fatal(err)
	}
	bytes, counted, _ := storedBytes(t, r, "")
	if bytes > fleetBytes || bytes < fleetBytes/4 {
		t.Errorf("all events have %d bytes", bytes)
	}
	if d := counted - bytes; d < -1000 || d > 1000 {
		t.Errorf("%d bytes are counted, there are %d", counted, bytes)
	}
}

// TestReportTwice: a large event that was truncated is recognized when it is reported again.
func TestReportTwice(t *testing.T) {
	r := openIn(t, t.TempDir())
	for range 2 {
		if _, err := r.Append(t.Context(), largeEvent("b1", 1), largeEvent("b1", 2)); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := r.Events(t.Context(), EventFilter{}); err != nil || len(kept) != 2 {
		t.Errorf("%d events are kept, %v", len(kept), err)
	}
	escaped, many := anEvent("b1", trace.Init, trace.Info), anEvent("b1", trace.Init, trace.Info)
	escaped.Message = strings.Repeat("<", 2000)
	many.Bytes = map[string]int64{}
	for i := range 2000 {
		many.Bytes[fmt.Sprint("source", i)] = 1
	}
	for _, e := range []trace.Event{escaped, many} {
		if x, err := encode(e); err != nil || len(x.body) > maxEvent {
			t.Errorf("an event has %d bytes, %v", len(x.body), err)
		}
	}
}

// TestPagesOfEvents: a reader gets as many bytes as it requested; a follower gets all events, however large they are.
func TestPagesOfEvents(t *testing.T) {
	r := openIn(t, t.TempDir())
	const n = 200
	for i := range n {
		if _, err := r.Append(t.Context(), largeEvent(fleet.BootID(fmt.Sprint("b", i/50)), i)); err != nil {
			t.Fatal(err)
		}
	}
	page, err := r.Events(t.Context(), EventFilter{Bytes: 10 * maxEvent})
	if err != nil || len(page) < 10 || len(page) > 20 {
		t.Errorf("%d events in a page, %v", len(page), err)
	}
	next := int64(1)
	enough := errors.New("enough")
	err = r.Follow(t.Context(), 0, func(e trace.Event) error {
		if e.Seq != next {
			t.Fatalf("event %d comes where %d is due", e.Seq, next)
		}
		if next++; next > n {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

// TestMigrateEventBytes: events stored by an older release are counted, and are read in part if there are too many
// bytes.
func TestMigrateEventBytes(t *testing.T) {
	dir := t.TempDir()
	old := eventsSchema
	old.steps = old.steps[:4]
	f, err := openFile(t.Context(), filepath.Join(dir, EventsFile), old)
	if err != nil {
		t.Fatal(err)
	}
	const n, size = 300, 36 << 10
	body := fmt.Sprintf(`{"time":"2026-11-21T12:00:00Z","boot":"b1","stage":"booted","kind":"info","message":"%s"}`,
		strings.Repeat("x", size))
	err = f.write(t.Context(), func(tx *sql.Tx) error {
		for range n {
			if _, err := tx.Exec(`INSERT INTO events (boot, body) VALUES ('b1', ?)`, []byte(body)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`INSERT INTO progress (boot, updated, events) VALUES ('b1', 1, ?), ('b2', 1, 0)`, n)
		return err
	})
	if err := errors.Join(err, f.close()); err != nil {
		t.Fatal(err)
	}
	r := openIn(t, dir)
	bytes, counted, _ := storedBytes(t, r, "")
	if bytes != int64(n*len(body)) || counted != bytes {
		t.Errorf("%d bytes are counted, there are %d", counted, bytes)
	}
	kept, err := r.Events(t.Context(), EventFilter{Boot: "b1"})
	if err != nil || len(kept)*size > BytesPerBoot+4*maxEvent || len(kept) < 20 {
		t.Errorf("%d events are read, %v", len(kept), err)
	}
	if _, err := r.Append(t.Context(), anEvent("b1", trace.Init, trace.Info)); err != nil {
		t.Fatal(err)
	}
	if p, err := r.Progress(t.Context(), "b1"); err != nil || p["b1"].LeftOut != 1 {
		t.Errorf("a boot that had too much grows: %+v, %v", p, err)
	}
}

// BenchmarkReport compares a report for a boot with many large events with the same report for a new boot.
func BenchmarkReport(b *testing.B) {
	r, err := Open(b.Context(), Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	report := func(boot fleet.BootID, from, n int) time.Duration {
		events := make([]trace.Event, n)
		for i := range events {
			events[i] = anEvent(boot, trace.Init, trace.End)
			events[i].Offset, events[i].Message = time.Duration(from+i+1), strings.Repeat("m", 200)
		}
		began := time.Now()
		if _, err := r.Append(b.Context(), events...); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	const full = 2500
	report("full", 0, full)
	var fresh, late time.Duration
	for n := 0; b.Loop(); n++ {
		fresh += report(fleet.BootID(fmt.Sprint("new", n)), 0, 100)
		late += report("full", full-100, 100) // reported before: nothing is stored
		late += report("full", full+n*100, 100)
	}
	b.ReportMetric(float64(late)/float64(fresh), "late/fresh")
}
