package testbed

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/trace"
)

// A boot ends with `booted` or with a mark; boots that did not reach the mark do not count.
func TestBootsUntilAMark(t *testing.T) {
	dir := t.TempDir()
	reads := []trace.Read{{Start: 1, Blocks: 1, At: at(5)}, {Start: 7, Blocks: 2, At: at(90)}}
	for name, moments := range map[string]map[trace.Stage]time.Duration{
		"short": {trace.Booted: at(50)}, "long": {trace.Booted: at(60), "browser": at(100)}, "untold": {},
	} {
		k := map[string]any{"received": time.Unix(0, 0), "reads": trace.EncodeReads(reads)}
		var all []map[string]any
		for stage, when := range moments {
			all = append(all, map[string]any{"stage": stage, "at": when})
		}
		k["moments"] = all
		b, err := json.Marshal(k)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".json"), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	boots, err := keptBoots(dir, trace.Booted)
	if err != nil || len(boots) != 3 {
		t.Errorf("booted: %d boots, %v", len(boots), err)
	}
	boots, err = keptBoots(dir, "browser")
	if err != nil || len(boots) != 1 || boots[0].Booted != at(100) || len(NewScript(boots[0]).reads) != 2 {
		t.Errorf("browser: %+v, %v", boots, err)
	}
}

// The newest boot of the node that was recorded first is replayed, even if other nodes boot later.
func TestBootsInTheirOrder(t *testing.T) {
	dir := t.TempDir()
	for i, node := range []string{"recorder", "other", "recorder", "other"} {
		b, err := json.Marshal(
			map[string]any{
				"node":     node,
				"received": time.Unix(int64(i), 0),
				"reads":    trace.EncodeReads([]trace.Read{{Start: uint32(i), Blocks: 1}}),
			},
		)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)+".json"), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	boots, err := keptBoots(dir, trace.Booted)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for _, b := range boots {
		got = append(got, b.Reads[0].Start)
	}
	if !slices.Equal(got, []uint32{2, 0, 3, 1}) {
		t.Errorf("in the order %v, want 2, 0 of the first node, then 3, 1", got)
	}
}

// A boot needs whole pieces of a pack, even if it reads one block of them.
func TestReadSet(t *testing.T) {
	p := bootpack.Map{
		Extents: []bootpack.Extent{{Start: 10, Blocks: 3}, {Start: 2, Blocks: 1}, {Start: 50, Blocks: 2}},
		Pieces: []chunk.Entry{
			{RawSize: 2 * chunk.BlockSize, StoredSize: 100},
			{RawSize: 2 * chunk.BlockSize, StoredSize: 10},
			{RawSize: 2 * chunk.BlockSize, StoredSize: 1},
		},
	}
	for _, x := range []struct {
		start  uint32
		bytes  int64
		pieces int
	}{{9, 0, 0}, {11, 100, 1}, {2, 10, 1}, {50, 1, 1}} {
		bytes, pieces := readSet(p, []trace.Read{{Start: x.start, Blocks: 1}})
		if bytes != x.bytes || pieces != x.pieces {
			t.Errorf("block %d: %d bytes in %d pieces, want %d in %d", x.start, bytes, pieces, x.bytes, x.pieces)
		}
	}
	if bytes, pieces := readSet(p, []trace.Read{{Start: 9, Blocks: 4}}); bytes != 110 || pieces != 2 {
		t.Errorf("three blocks in two pieces: %d, %d", bytes, pieces)
	}
}

// A storm begins after the server has made the pack of all longer recordings, because that would use a processor and
// change W.
func TestUpToDate(t *testing.T) {
	made := time.Unix(1000, 0)
	one := []bootpack.Record{{Made: made}}
	for name, c := range map[string]struct {
		records []bootpack.Record
		kept    []keptBoot
		want    bool
	}{
		"no pack":              {nil, nil, false},
		"pack of a class":      {[]bootpack.Record{{Made: made, Class: "c"}}, nil, false},
		"pack":                 {one, []keptBoot{{Reached: true, Received: made}}, true},
		"pack, boots after it": {one, []keptBoot{{Received: made.Add(1)}}, true},
		"asked for after it": {one,
			[]keptBoot{{Reached: true, Received: made}, {Reached: true, Received: made.Add(1)}}, false},
		"two packs, asked after": {append(one, bootpack.Record{Made: made.Add(2)}),
			[]keptBoot{{Reached: true, Received: made.Add(1)}}, true},
	} {
		if got := upToDate(c.records, c.kept); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
