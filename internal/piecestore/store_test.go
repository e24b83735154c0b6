package piecestore

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// testPack returns a pack of pieces of two blocks with these stored sizes, and the pieces.
func testPack(t rapid.TB, sizes ...int) (m bootpack.Map, pieces []chunk.Verified) {
	for i, n := range sizes {
		b := binary.LittleEndian.AppendUint32(make([]byte, n-4), uint32(i))
		v, err := chunk.Check(chunk.Sum(b), b)
		if err != nil {
			t.Fatal(err)
		}
		m.Pieces = append(m.Pieces, chunk.Entry{ID: v.ID(), RawSize: 2 * chunk.BlockSize, StoredSize: n})
		pieces = append(pieces, v)
	}
	m.Extents = []bootpack.Extent{{Blocks: uint32(2 * len(sizes))}}
	m.Booted = len(sizes)
	return m, pieces
}

// same returns n equal sizes.
func same(n, size int) []int { return slices.Repeat([]int{size}, n) }

// If most of a pack is for later reads, these pieces may be fetched once few of the pieces until booted are missing,
// though none was read. With another pack they wait for the end of the boot.
func TestRestThatIsWaitedFor(t *testing.T) {
	for booted, early := range map[int]bool{30: true, 60: false} {
		m, pieces := testPack(t, same(80, 100)...)
		m.Booted = booted
		s := New(Options{Map: m})
		for i := range booted {
			want := booted
			if early && booted-i <= booted/8 {
				want = len(pieces)
			}
			if _, _, got := s.Changes(); got != want {
				t.Errorf("with %d of %d pieces until booted the reach is %d, want %d", i, booted, got, want)
			}
			s.Put(i, pieces[i], false)
		}
	}
}

// Pieces for later reads are fetched when the boot is over, and not before, even if all others were read from.
func TestRestComesWhenTheBootIsOver(t *testing.T) {
	m, pieces := testPack(t, same(10, 100)...)
	m.Booted = 5
	s, told := New(Options{Map: m}), 0
	s.Follow(func() { told++ })
	for i := range m.Booted {
		s.Put(i, pieces[i], true)
		s.Read(i, 0, chunk.BlockSize)
	}
	if _, _, got := s.Changes(); got != m.Booted {
		t.Errorf("in the boot the reach is %d, want %d", got, m.Booted)
	}
	before := told
	s.BootOver()
	if _, _, got := s.Changes(); got != len(pieces) || told == before {
		t.Errorf("after the boot the reach is %d, want %d; told %d times", got, len(pieces), told-before)
	}
}

// The follower is told once of each piece that came or went and of each that is left to it.
func TestChanges(t *testing.T) {
	m, pieces := testPack(t, same(4, 100)...)
	s, told := New(Options{Map: m, Keep: 250}), 0
	s.Put(0, pieces[0], false) // there is no follower yet
	s.Follow(func() { told++ })
	want := func(what string, changed, left []int) {
		t.Helper()
		if c, l, _ := s.Changes(); !slices.Equal(c, changed) || !slices.Equal(l, left) || told == 0 {
			t.Errorf("%s: told %d times, of %v and %v", what, told, c, l)
		}
		told = 0
	}
	s.Put(1, pieces[1], false)
	want("a piece came", []int{1}, nil)
	if s.Put(2, pieces[2], false) || told != 0 {
		t.Error("a piece without room is held, or the follower is told of it")
	}
	s.Put(0, pieces[0], false) // a second time
	if told != 0 {
		t.Error("the follower is told of what was there")
	}
	if s.Put(2, pieces[2], true) || told != 0 { // all held pieces are read earlier
		t.Error("a piece takes the room of one that is read earlier")
	}
	s.Read(0, 0, 2*chunk.BlockSize)
	s.Read(1, 0, chunk.BlockSize)
	s.Put(2, pieces[2], false)
	want("the first piece was read", []int{0, 2}, nil)
	s.Lose(2, errors.New("it does not unpack"))
	want("a piece is lost", []int{2}, nil)
	if i, _ := s.Next(4); i != 3 {
		t.Fatalf("piece %d is streamed, want 3", i)
	}
	s.Leave(3)
	want("a piece is left", nil, []int{3})
	if i, wait := s.Next(4); i >= 0 || wait != nil {
		t.Errorf("piece %d is streamed, and was lost, left or read", i)
	}
}

// A lost piece has its error, takes no room and is reported once. A spared piece is no loss. When too many pieces are
// lost, all that are not held are.
func TestLose(t *testing.T) {
	m, pieces := testPack(t, same(12, 100)...)
	var lost []error
	s := New(Options{Map: m, Lost: func(_ chunk.ID, err error) { lost = append(lost, err) }})
	broken := errors.New("it is broken")
	s.Put(0, pieces[0], false)
	for range 2 {
		s.Lose(0, broken)
		s.Lose(1, ErrSpared)
	}
	if s.Put(0, pieces[0], true) || s.cost != 0 {
		t.Errorf("a lost piece is held, %d bytes", s.cost)
	}
	for i, want := range []error{broken, ErrSpared, nil} {
		if _, held, err := s.Piece(i); held || !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("piece %d: held %t, %v, want %v", i, held, err, want)
		}
	}
	s.Put(11, pieces[11], false)
	for i := 2; i < 2+maxLost-1; i++ {
		s.Lose(i, broken)
	}
	if len(lost) != maxLost || slices.Contains(lost, ErrSpared) {
		t.Errorf("told of %v", lost)
	}
	if _, held, err := s.Piece(11); !held || err != nil {
		t.Errorf("what is held is given up: %v", err)
	}
	if _, _, err := s.Piece(10); !errors.Is(err, errGivenUp) {
		t.Errorf("a piece of a pack that is given up: %v", err)
	}
	if i, wait := s.Next(12); i >= 0 || wait != nil {
		t.Errorf("piece %d is streamed of a pack that is given up", i)
	}
}

// A piece is done when all its blocks were read that are part of the root.
func TestUnusedBlocks(t *testing.T) {
	m, pieces := testPack(t, 100, 100, 100)
	m.Extents = []bootpack.Extent{{Blocks: 1}, {Start: bootpack.UnusedBlock, Blocks: 1}, {Start: 1, Blocks: 4}}
	unread := int64(0)
	s := New(Options{Map: m, Keep: 200, Unread: func(n int64, _ bool) { unread += n }})
	s.Put(0, pieces[0], false)
	s.Put(1, pieces[1], false)
	if fresh, last := s.Read(0, 0, chunk.BlockSize); !fresh || !last || s.HasUnread(0, 0, 2*chunk.BlockSize) {
		t.Error("a piece waits for a block that nothing reads")
	}
	if fresh, last := s.Read(1, 0, chunk.BlockSize); !fresh || last || !s.HasUnread(1, 0, 1<<20) ||
		s.HasUnread(1, 0, chunk.BlockSize) {
		t.Error("a piece does not wait for a block that something reads")
	}
	if !s.Put(2, pieces[2], false) || s.state[0].held || unread != 4*chunk.BlockSize {
		t.Errorf("the piece makes no room, or %d bytes are unread, want four blocks", unread)
	}
}

// For any order of arrivals, drops and reads: memory stays bounded, held pieces are correct, and the counts are right.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, pieces := testPack(rt, rapid.SliceOfN(rapid.IntRange(4, 40_000), 1, 12).Draw(rt, "sizes")...)
		m.Booted = rapid.IntRange(0, len(pieces)).Draw(rt, "booted")
		s, known := New(Options{Map: m, Keep: rapid.Int64Range(1, 200_000).Draw(rt, "keep")}), map[int]bool{}
		s.Follow(func() {})
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(pieces)-1).Draw(rt, "piece")
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0, 1:
				s.Put(i, pieces[i], rapid.Bool().Draw(rt, "waits"))
			case 2:
				s.Read(i, 0, rapid.Int64Range(1, 2).Draw(rt, "blocks")*chunk.BlockSize)
			case 3:
				if i, _ := s.Next(len(pieces)); i >= 0 && rapid.Bool().Draw(rt, "leave") {
					s.Leave(i)
				}
			case 4:
				s.Lose(i, rapid.SampledFrom([]error{ErrSpared, errors.New("lost")}).Draw(rt, "why"))
			case 5:
				s.BootOver()
			}
			changed, _, reach := s.Changes()
			cost := int64(0)
			for i := range pieces {
				v, held, lost := s.Piece(i)
				if held && (lost != nil || v.ID() != pieces[i].ID()) ||
					held != known[i] && !slices.Contains(changed, i) {
					rt.Fatalf("piece %d: held %t, lost %v, changed %v", i, held, lost, changed)
				}
				if known[i] = held; held || s.state[i].coming {
					cost += s.size(i)
				}
			}
			if s.cost != cost || cost > s.Keep || reach < 0 || reach > len(pieces) {
				rt.Fatalf("%d bytes are held or on their way, said to be %d, the bound is %d; reach %d", cost, s.cost,
					s.Keep, reach)
			}
		}
	})
}
