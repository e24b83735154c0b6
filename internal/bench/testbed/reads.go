package testbed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// recordings returns what boots of a version read; the first is replayed. They come from named files, or from the
// server. Boots end with the stage t.Until; recordings of the server that did not reach it are left out.
func (t *Testbed) recordings(v fleet.Digest) (out []packer.Recording, err error) {
	if len(t.Traces) > 0 {
		for _, name := range t.Traces {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			reads, err := trace.DecodeReads(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = append(out, packer.Recording{Reads: reads})
		}
		return out, nil
	}
	return keptBoots(t.tracesOf(v), t.Until)
}

// tracesOf returns the directory in which the server keeps read traces of a version.
func (t *Testbed) tracesOf(v fleet.Digest) string {
	return filepath.Join(t.DataDir(), "traces", strings.TrimPrefix(string(v), "sha256:"))
}

// keptBoot is a read trace as the server keeps it.
type keptBoot struct {
	Node     string    `json:"node"`
	Received time.Time `json:"received"`
	Reads    []byte    `json:"reads"`
	Reached  bool      `json:"reached"` // it reached the mark until which it was recorded
	Moments  []struct {
		Stage trace.Stage   `json:"stage"`
		At    time.Duration `json:"at"`
	} `json:"moments"`
}

// readKept reads a directory of traces. A missing directory has none.
func readKept(dir string) (kept []keptBoot, err error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) != ".json" {
			continue // the server is writing it
		}
		var k keptBoot
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err == nil {
			err = json.Unmarshal(data, &k)
		}
		if err != nil {
			return nil, fmt.Errorf("read trace %s: %w", f.Name(), err)
		}
		kept = append(kept, k)
	}
	return kept, nil
}

// keptBoots reads the server's traces of boots that reached a stage. Traces without that stage are used whole if it is
// `booted`. Traces of the node that was recorded first come first, newest first, so that later recordings of other
// machines do not change the storms.
func keptBoots(dir string, until trace.Stage) ([]packer.Recording, error) {
	kept, err := readKept(dir)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(kept, func(a, b keptBoot) int { return b.Received.Compare(a.Received) })
	if len(kept) > 0 {
		recorded := kept[len(kept)-1].Node
		slices.SortStableFunc(
			kept,
			func(a, b keptBoot) int { return cmp.Compare(side(a.Node == recorded), side(b.Node == recorded)) },
		)
	}
	var out []packer.Recording
	for _, k := range kept {
		r := packer.Recording{}
		if r.Reads, err = trace.DecodeReads(k.Reads); err != nil {
			return nil, err
		}
		for _, m := range k.Moments {
			if m.Stage == until {
				r.Booted = m.At
			}
		}
		if r.Booted > 0 || until == trace.Booted {
			out = append(out, r)
		}
	}
	return out, nil
}

// side returns the sort key that puts items with first before the others.
func side(first bool) int {
	if first {
		return 0
	}
	return 1
}

// Script is a boot for replay. The recording has the times of reads in milliseconds, but not which read waited for
// which. So reads of one millisecond are made together, as a burst, and the time to the next burst starts when the last
// of them is answered. All systems get the same script.
type Script struct {
	reads  []trace.Read
	bursts []Burst
	length time.Duration // sum of all pauses, as recorded
}

// Burst is a set of reads that are made at once.
type Burst struct {
	First, End int           // indices of the reads
	Think      time.Duration // pause before the burst, as recorded
}

// NewScript makes a script from the reads until booted.
func NewScript(r packer.Recording) Script {
	var s Script
	for _, x := range r.Reads {
		if r.Booted > 0 && x.At > r.Booted {
			continue
		}
		s.reads = append(s.reads, x)
	}
	slices.SortStableFunc(s.reads, func(a, b trace.Read) int { return cmp.Compare(a.At, b.At) })
	at := time.Duration(0)
	for i, x := range s.reads {
		if i == 0 || x.At != at {
			s.bursts = append(s.bursts, Burst{First: i, Think: x.At - at})
			at = x.At
		}
		s.bursts[len(s.bursts)-1].End = i + 1
	}
	s.length = at
	return s
}

// Scaled returns the bursts with pauses scaled to the given sum.
func (s Script) Scaled(think time.Duration) []Burst {
	out := slices.Clone(s.bursts)
	for i := range out {
		if s.length == 0 {
			out[i].Think = 0
		} else {
			out[i].Think = time.Duration(float64(out[i].Think) / float64(s.length) * float64(think))
		}
	}
	return out
}
