package netboot

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pando/internal/fleet"
)

var (
	k1 = Objects{"k1", "i1"}
	k2 = Objects{"k2", "i1"}
)

func source(i byte, o Objects) Source {
	return Source{MAC: fleet.MAC{2, 0, 0, 0, 0, i}, Node: fmt.Sprintf("pc%03d", i), Prefix: 24, Objects: o,
		Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, i / 100, i}), 8481)}
}

func booting(i byte, o Objects) Machine {
	x := source(i, o)
	return Machine{MAC: x.MAC, Address: x.Address.Addr(), Objects: o}
}

func names(list []Source) (out []string) {
	for _, x := range list {
		out = append(out, x.Node)
	}
	return out
}

func wantPick(t *testing.T, got []Source, want ...string) {
	t.Helper()
	if !slices.Equal(names(got), want) {
		t.Errorf("picked %v, want %v", names(got), want)
	}
}

// Each node serves one machine at a time. Nodes with another kernel, and the machine itself, are not named.
func TestPick(t *testing.T) {
	s, now := NewSources(), time.Unix(1e9, 0)
	wantPick(t, s.Pick(now, booting(9, k1)))
	s.Add(now, source(1, k1))
	s.Add(now, source(2, k2))
	s.Add(now, source(9, k1))
	wantPick(t, s.Pick(now, booting(9, k1)), "pc001")
	wantPick(t, s.Pick(now, booting(9, k1)), "pc001") // it asks again, and keeps its place
	wantPick(t, s.Pick(now, booting(8, k1)), "pc009", "pc001")
	wantPick(t, s.Pick(now, booting(7, k1)))
	s.Done(now, booting(9, k1).MAC, source(1, k1).MAC)
	wantPick(t, s.Pick(now, booting(7, k1)), "pc001", "pc009")
	s.Remove(source(1, k1).MAC)
	wantPick(t, s.Pick(now, booting(7, k1)))
	if got := s.Count(k1); got != 1 {
		t.Errorf("%d nodes have it", got)
	}
}

// A machine is sent to nodes of its place first, then to those of its subnet; among equals to who served longest ago.
func TestPickLocal(t *testing.T) {
	s, now := NewSources(), time.Unix(1e9, 0)
	for i, place := range map[byte]string{1: "r1", 2: "r2", 3: "", 101: "r2"} {
		x := source(i, k1)
		x.Place = place
		s.Add(now, x)
	}
	l := booting(9, k1)
	l.Place = "r2"
	wantPick(t, s.Pick(now, l), "pc002", "pc101", "pc001", "pc003")
	s.Done(now, l.MAC, source(2, k1).MAC)
	now = now.Add(time.Second)
	wantPick(t, s.Pick(now, l), "pc101", "pc002", "pc001", "pc003")
	s.Done(now, l.MAC, source(101, k1).MAC)
	l.Place, l.Local = "", true
	wantPick(t, s.Pick(now, l), "pc001", "pc003", "pc002")
}

// Who fails twice in a row rests for a while; so does who keeps machines for minutes.
func TestSourceRests(t *testing.T) {
	s, now := NewSources(), time.Unix(1e9, 0)
	s.Add(now, source(1, k1))
	s.Add(now, source(2, k1))
	bad, good, l := source(1, k1).MAC, source(2, k1).MAC, booting(9, k1)
	for range 2 {
		if got := s.Pick(now, l); len(got) != 2 {
			t.Fatalf("picked %v", names(got))
		}
		s.Done(now, l.MAC, good, bad)
	}
	wantPick(t, s.Pick(now, l), "pc002")
	now = now.Add(sourceRest)
	s.Done(now, l.MAC, good)
	wantPick(t, s.Pick(now, l), "pc001", "pc002")
	s = NewSources()
	s.Add(now, source(1, k1))
	for i := range byte(sourceFailures) { // these machines are sent to it, and report nothing
		wantPick(t, s.Pick(now, booting(10+i, k1)), "pc001")
		now = now.Add(longest + time.Second)
		s.Saw(now, bad)
	}
	wantPick(t, s.Pick(now, l))
}

// A node that is silent may be off: it is not named until it reports again.
func TestSilentSource(t *testing.T) {
	s, now := NewSources(), time.Unix(1e9, 0)
	s.Add(now, source(1, k1))
	l := booting(9, k1)
	now = now.Add(sourceSilent + time.Second)
	wantPick(t, s.Pick(now, l))
	if s.Ready(now, k1) != 0 || !s.Saw(now, source(1, k1).MAC) || s.Saw(now, source(2, k1).MAC) {
		t.Error("a silent node counts, or one that serves nothing")
	}
	wantPick(t, s.Pick(now, l), "pc001")
}
