package packs

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
	"sync"
	"time"

	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/store"
	"pando/internal/trace"
)

// tracesDir, in the data directory, holds the read traces: one file per boot, in a directory per version. They are
// synced to disk, because an operator's request for a longer recording is removed when its trace is kept.
const tracesDir = "traces"

// Bounds of the traces that are kept. A boot pack needs two traces. With four, one unusual boot does not decide.
const (
	TracesPerClass   = 4  // traces of one version and hardware class
	tracesPerVersion = 24 // traces of one version
	tracedVersions   = 64 // versions; those without new traces for longest are forgotten first
)

// Trace is the read trace of one boot, as kept on disk.
type Trace struct {
	Boot     fleet.BootID `json:"boot"`
	Node     string       `json:"node"`
	Class    string       `json:"class,omitempty"` // hardware class of the node
	Received time.Time    `json:"received"`
	Moments  []moment     `json:"moments,omitempty"` // ordered by time
	Reads    []byte       `json:"reads"`             // encoded by trace.EncodeReads

	Pack        string `json:"pack,omitempty"` // the boot's pack, and the node's account of it, in bytes
	Hits        int64  `json:"hits,omitempty"`
	Misses      int64  `json:"misses,omitempty"`
	Wasted      int64  `json:"wasted,omitempty"`
	WastedLater int64  `json:"late,omitempty"`

	Until   string `json:"until,omitempty"` // mark until which an operator requested the recording
	Reached bool   `json:"reached,omitempty"`
}

// moment is the time at which a boot reached a stage or a mark of its own.
type moment struct {
	Stage trace.Stage   `json:"stage"`
	At    time.Duration `json:"at"` // since the device was attached
}

// Recording returns the trace in the form from which boot packs are made.
func (k Trace) Recording() (packer.Recording, error) {
	reads, err := trace.DecodeReads(k.Reads)
	r := packer.Recording{Reads: reads, Beyond: k.Reached}
	for _, m := range k.Moments {
		if m.Stage == trace.Booted {
			r.Booted = m.At
		}
	}
	return r, err
}

// Traces keeps read traces as files.
type Traces struct {
	dir string
	mu  sync.Mutex // held while files change
}

// NewTraces returns the traces below a data directory.
func NewTraces(data string) *Traces { return &Traces{dir: filepath.Join(data, tracesDir)} }

func (t *Traces) of(v fleet.Digest) string {
	return filepath.Join(t.dir, strings.TrimPrefix(string(v), "sha256:"))
}

func (t *Traces) file(v fleet.Digest, boot fleet.BootID) string {
	return filepath.Join(t.of(v), string(boot)+".json")
}

// receive keeps a trace that arrives now.
func (t *Traces) receive(v fleet.Digest, k Trace, now func() time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.Received = now().UTC()
	return t.keep(v, k)
}

// settled returns the present time. Every trace received before it is kept, and is in every later list.
func (t *Traces) settled(now func() time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now()
}

// Put keeps a trace.
func (t *Traces) Put(v fleet.Digest, k Trace) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keep(v, k)
}

// keep stores a trace and removes those beyond the bounds. The caller holds mu.
func (t *Traces) keep(v fleet.Digest, k Trace) error {
	data, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("keep read trace of %s: %w", k.Boot, err)
	}
	err = os.MkdirAll(t.of(v), 0o755)
	if err == nil {
		err = store.WriteFile(t.file(v, k.Boot), data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep read trace of %s: %w", k.Boot, err)
	}
	kept, err := t.List(v)
	if err != nil {
		return err
	}
	for _, old := range tooMany(kept) {
		if err := os.Remove(t.file(v, old.Boot)); err != nil {
			return fmt.Errorf("forget read trace: %w", err)
		}
	}
	return t.forgetVersions()
}

// List returns the traces of a version, newest first. A file that cannot be read is left out.
func (t *Traces) List(v fleet.Digest) ([]Trace, error) {
	files, err := os.ReadDir(t.of(v))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list read traces: %w", err)
	}
	var out []Trace
	for _, f := range files {
		boot, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok {
			continue
		}
		data, err := os.ReadFile(filepath.Join(t.of(v), f.Name()))
		var k Trace
		if err == nil && json.Unmarshal(data, &k) == nil && string(k.Boot) == boot {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(a, b Trace) int { return b.Received.Compare(a.Received) })
	return out, nil
}

// tooMany returns the traces to remove, from all of a version, newest first. A node that boots often replaces its own
// traces before those of others, so that no single node decides what a pack contains.
func tooMany(kept []Trace) []Trace {
	keep, out := slices.Clone(kept), []Trace(nil)
	asked := AskedFor(kept)
	drop := func(among func(Trace) bool) {
		victim, most := -1, 0
		for i, k := range keep {
			same := 0
			for _, o := range keep {
				if among(o) && o.Node == k.Node {
					same++
				}
			}
			if among(k) && !asked[k.Boot] && same >= most { // of equals the later one in the list, the older trace
				victim, most = i, same
			}
		}
		out, keep = append(out, keep[victim]), slices.Delete(keep, victim, victim+1)
	}
	for _, class := range classesOf(kept) {
		in := func(k Trace) bool { return k.Class == class }
		for len(slices.DeleteFunc(slices.Clone(keep), func(k Trace) bool { return !in(k) })) > TracesPerClass {
			drop(in)
		}
	}
	for len(keep) > tracesPerVersion {
		drop(func(Trace) bool { return true })
	}
	return out
}

// AskedFor returns the traces that are kept longer: for each class the newest complete one that an operator requested.
// Later boots are not recorded for as long.
func AskedFor(kept []Trace) map[fleet.BootID]bool {
	out, seen := map[fleet.BootID]bool{}, map[string]bool{}
	for _, k := range kept {
		if k.Reached && !seen[k.Class] && len(seen) < tracesPerVersion/2 {
			seen[k.Class], out[k.Boot] = true, true
		}
	}
	return out
}

// Versions lists the versions that have traces.
func (t *Traces) Versions() ([]fleet.Digest, error) {
	dirs, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []fleet.Digest
	for _, d := range dirs {
		if v, err := fleet.ParseDigest("sha256:" + d.Name()); err == nil {
			out = append(out, v)
		}
	}
	return out, err
}

// Forget removes the traces of a version.
func (t *Traces) Forget(v fleet.Digest) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := os.RemoveAll(t.of(v)); err != nil {
		return fmt.Errorf("forget read traces of %s: %w", v.Short(), err)
	}
	return nil
}

// classesOf lists the hardware classes of traces.
func classesOf(kept []Trace) []string {
	var out []string
	for _, k := range kept {
		out = append(out, k.Class)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// forgetVersions removes the traces of the versions without new traces for longest, beyond tracedVersions.
func (t *Traces) forgetVersions() error {
	dirs, err := os.ReadDir(t.dir)
	if err != nil || len(dirs) <= tracedVersions {
		return err
	}
	changed := func(d fs.DirEntry) time.Time {
		info, err := d.Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(dirs, func(a, b fs.DirEntry) int {
		return cmp.Or(changed(b).Compare(changed(a)), cmp.Compare(a.Name(), b.Name()))
	})
	for _, d := range dirs[tracedVersions:] {
		if err := os.RemoveAll(filepath.Join(t.dir, d.Name())); err != nil {
			return fmt.Errorf("forget read traces: %w", err)
		}
	}
	return nil
}
