package trace

import (
	"cmp"
	"strconv"
	"time"
)

// State is the state of a boot as a whole.
type State string

// The states of a boot.
const (
	Booting State = "booting" // under way
	Failed  State = "failed"  // a stage failed and has not succeeded since
	Up      State = "booted"  // the image reached its default target
	Down    State = "down"    // the node reported its shutdown

	// Only StateAt returns these.
	Degraded State = "degraded" // booted, and units failed
	Silent   State = "silent"   // booted, but no report for SilentAfter
)

// Reached reports whether a boot reached its default target and its node has not reported its shutdown since.
func (s State) Reached() bool { return s == Up || s == Degraded || s == Silent }

// Runs reports whether a boot reached its default target and its node still reports.
func (s State) Runs() bool { return s == Up || s == Degraded }

// SourceK is the source of bytes sent before Init: boot loader, kernel and initramfs. The node counts later bytes by
// their source.
const SourceK = "k"

// SourceNeighbour is the source of kernel and initramfs that other nodes sent.
const SourceNeighbour = "k-neighbour"

// Progress is the summary of one boot, updated by each of its events. The zero value is a boot without events.
type Progress struct {
	State   State            `json:"state"`
	Stage   Stage            `json:"stage"`             // the furthest stage it reached; marks do not count
	Started time.Time        `json:"started"`           // its first event
	Updated time.Time        `json:"updated"`           // its last event
	Ready   time.Time        `json:"ready,omitzero"`    // when it was booted
	Broken  Stage            `json:"broken,omitempty"`  // the stage that failed and has not succeeded since
	Failure string           `json:"failure,omitempty"` // what failed there
	Hint    string           `json:"hint,omitempty"`    // what to do about it
	Bytes   map[string]int64 `json:"bytes,omitempty"`   // by source
	Panic   bool             `json:"panic,omitempty"`   // its kernel panicked
	Off     bool             `json:"off,omitempty"`     // it switched itself off before it was up
	Lost    bool             `json:"lost,omitempty"`    // it restarts because reads of its root get no answer
	Cache   string           `json:"cache,omitempty"`   // the last reported AttrCache
	Moved   time.Time        `json:"moved,omitzero"`    // when it last made progress
	Kinds   kinds            `json:"kinds,omitempty"`   // kind of the last event of each stage
	Serves  *Serves          `json:"serves,omitempty"`  // what its node serves to other machines; nil: nothing
	Refused int              `json:"refused,omitempty"` // times that a node did not deliver kernel or initramfs
	Waits   bool             `json:"waits,omitempty"`   // it waits in the admission queue, or for its adoption
}

// Serves is the kernel and the initramfs that a node serves to other machines.
type Serves struct {
	Kernel    string `json:"kernel"` // object ids of 64 hex digits
	Initramfs string `json:"initramfs"`
	Port      uint16 `json:"port"`
	Prefix    int    `json:"prefix,omitempty"` // length of its subnet's prefix; 0: not known
}

// servesOf returns what an event with AttrKernelPort says.
func servesOf(e Event) (s Serves, ok bool) {
	port, err := strconv.ParseUint(e.Attrs[AttrKernelPort], 10, 16)
	s.Kernel, s.Initramfs, s.Port = e.Attrs[AttrServedKernel], e.Attrs[AttrServedInitramfs], uint16(port)
	if prefix, err := strconv.ParseUint(e.Attrs[AttrPrefix], 10, 8); err == nil && prefix <= 128 {
		s.Prefix = int(prefix)
	}
	return s, err == nil && port > 0 && len(s.Kernel) == 64 && len(s.Initramfs) == 64
}

// kinds has the kind of each stage's last event that is no Info: two bits for each stage.
type kinds uint64

var kindCodes = [...]Kind{"", Begin, End, Fail}

func (k kinds) of(s Stage) Kind {
	if Rank(s) < 0 {
		return ""
	}
	return kindCodes[k>>(2*Rank(s))&3]
}

func (k *kinds) set(s Stage, kind Kind) {
	for code, c := range kindCodes {
		if c == kind {
			at := 2 * Rank(s)
			*k = *k&^(3<<at) | kinds(code)<<at
		}
	}
}

// Elapsed returns the time from the first event to booted, or to the last event of a boot that is not booted.
func (p Progress) Elapsed() time.Duration {
	if !p.Ready.IsZero() {
		return p.Ready.Sub(p.Started)
	}
	return p.Updated.Sub(p.Started)
}

// Apply updates the progress with the next event.
func (p *Progress) Apply(e Event) {
	if p.State == "" {
		p.State = Booting
	}
	if p.Started.IsZero() || e.Time.Before(p.Started) {
		p.Started = e.Time
	}
	if e.Time.After(p.Updated) {
		p.Updated = e.Time
	}
	p.count(e)
	p.Panic = p.Panic || e.Attrs[AttrPanic] != ""
	if s, ok := servesOf(e); ok {
		p.Serves = &s
	}
	if e.Attrs[AttrRefused] != "" {
		p.Refused++
	}
	p.Lost = p.Lost || e.Attrs[AttrRootLost] != ""
	p.Off = p.Off || e.Attrs[AttrOff] != "" && p.Ready.IsZero()
	p.Cache = cmp.Or(e.Attrs[AttrCache], p.Cache)
	p.move(e)
	if Rank(e.Stage) < 0 || e.Kind == Info {
		return
	}
	if p.Stage == "" || Rank(e.Stage) > Rank(p.Stage) && (e.Stage != Shutdown || p.State == Up) {
		p.Stage = e.Stage
	}
	p.judge(e)
}

// move records whether an event is progress, and whether the boot waits for others.
func (p *Progress) move(e Event) {
	if e.Kind == Info {
		p.Waits = p.Waits || e.Stage == Script && p.Kinds.of(Script) == Begin
		return
	}
	if Rank(e.Stage) < 0 {
		return
	}
	if e.Stage == Script {
		p.Waits = e.Kind == Begin && e.Message != ""
	}
	if Rank(e.Stage) > Rank(Script) {
		p.Waits = false
	}
	if old := p.Kinds.of(e.Stage); old == "" || old != e.Kind && e.Attempt <= 1 {
		p.Moved = later(p.Moved, e.Time)
	}
	p.Kinds.set(e.Stage, e.Kind)
}

// StateAt returns the state of a boot at a moment, which lists, pages, metrics and statistics show: the state by its
// events, unless the node no longer reports, the boot hangs, or units failed. If it is Failed or Degraded, Diagnose
// returns the cause.
func (p Progress) StateAt(facts Facts, now time.Time) State {
	switch {
	case p.State == "":
		return Booting
	case p.Lost:
		return Failed
	case p.State == Down:
		return Down
	case p.Panic:
		return Failed
	case p.State == Up && !facts.Seen.IsZero() && now.Sub(facts.Seen) > SilentAfter:
		return Silent
	case p.State == Up && len(facts.FailedUnits) > 0:
		return Degraded
	case p.State == Booting && p.isLate(facts, now):
		return Failed
	}
	return p.State
}

// Ended returns how a boot ended that is no longer its node's latest.
func (p Progress) Ended() State {
	if p.Lost || p.Panic {
		return Failed
	}
	return p.State
}

// judge updates the state.
func (p *Progress) judge(e Event) {
	switch {
	case e.Stage == Shutdown && p.State == Up:
		p.State = Down
	case e.Stage == Shutdown && p.State == Booting: // a failed boot stays failed
		p.State, p.Failure, p.Hint = Failed, cmp.Or(e.Message, "it went down"), e.Hint
		p.Broken = order[min(max(Rank(p.Stage)+1, 0), Rank(Booted))]
	case e.Stage == Shutdown:
	case p.State == Down:
		// These are reports that were under way when the node went down.
	case e.Kind == Fail:
		if p.State != Up { // a later failure shows as a failed unit
			p.State, p.Broken, p.Failure, p.Hint = Failed, e.Stage, e.Message, e.Hint
		}
	case e.Stage == Booted && e.Kind == End:
		p.State, p.Ready = Up, e.Time
		p.clearFailure()
	case p.State == Failed && (e.Kind == End && e.Stage == p.Broken || Rank(e.Stage) > Rank(p.Broken)):
		p.State = Booting
		p.clearFailure()
	}
}

func (p *Progress) clearFailure() { p.Broken, p.Failure, p.Hint = "", "", "" }

// count adds the bytes of an event. The server reports those of one transfer, the node its totals.
func (p *Progress) count(e Event) {
	for source, n := range e.Bytes {
		if p.Bytes == nil {
			p.Bytes = make(map[string]int64)
		}
		if source == SourceK || source == SourceNeighbour {
			p.Bytes[source] += n
			continue
		}
		p.Bytes[source] = max(p.Bytes[source], n)
	}
}
