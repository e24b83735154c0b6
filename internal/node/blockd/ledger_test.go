package blockd

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pando/internal/blockapi"
	"pando/internal/rundir"
)

func testLedger(t *testing.T) ledger {
	t.Helper()
	l, f, err := newLedger()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return l
}

// Supervisor and daemon map the same ledger and see the same numbers.
func TestLedgerIsShared(t *testing.T) {
	a, f, err := newLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := openLedger(f)
	if err != nil {
		t.Fatal(err)
	}
	a.add(countReads, 3)
	b.add(countReads, 4)
	a.report(blockapi.Incident{Kind: blockapi.Reattached, Message: "one"})
	b.report(
		blockapi.Incident{
			Kind:    blockapi.WrongBytes,
			Source:  "http://192.0.2.1",
			Object:  strings.Repeat("ab", 32),
			Message: "two",
		},
	)
	if n := a.get(countReads); n != 7 {
		t.Errorf("%d reads, want 7", n)
	}
	got := b.status(0)
	if got.Sequence != 2 || len(got.Incidents) != 2 || got.Incidents[0].Message != "one" ||
		got.Incidents[1].Kind != blockapi.WrongBytes {
		t.Errorf("incidents %+v", got.Incidents)
	}
	if later := b.status(1).Incidents; len(later) != 1 || later[0].Sequence != 2 {
		t.Errorf("incidents after 1: %+v", later)
	}
}

func TestLedgerKeepsTheNewestIncidents(t *testing.T) {
	l := testLedger(t)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 100 {
				l.report(blockapi.Incident{Kind: blockapi.LinkFixed, Message: fmt.Sprint(w, i)})
			}
		})
	}
	writers.Wait()
	got := l.incidents(0)
	if len(got) != incidentSlots || got[0].Sequence != 400-incidentSlots+1 || got[len(got)-1].Sequence != 400 {
		t.Errorf("%d incidents, %d to %d", len(got), got[0].Sequence, got[len(got)-1].Sequence)
	}
}

// Error texts of sources are untrusted: they may be long and need escapes.
func TestLedgerCutsLongTexts(t *testing.T) {
	l := testLedger(t)
	l.report(
		blockapi.Incident{
			Kind:    blockapi.ServerDown,
			Source:  strings.Repeat("s", 999),
			Message: strings.Repeat("m", 9999),
		},
	)
	l.report(
		blockapi.Incident{
			Kind:    blockapi.ServerDown,
			Object:  strings.Repeat("ab", 32),
			Message: strings.Repeat("\x01", 9999),
		},
	)
	got := l.incidents(0)
	if len(got) != 2 || len(got[0].Message) != 300 || got[1].Kind != blockapi.ServerDown || got[1].Object == "" {
		t.Errorf("incidents %+v", got)
	}
}

// An incident has a time of CLOCK_MONOTONIC, which all processes of a boot share.
func TestIncidentsHaveTheirTime(t *testing.T) {
	l := testLedger(t)
	before := rundir.Monotonic()
	l.report(blockapi.Incident{Kind: blockapi.ServerUp})
	if at := l.incidents(0)[0].At; at < before || at > rundir.Monotonic() {
		t.Errorf("reported at %v, after %v", at, before)
	}
}
