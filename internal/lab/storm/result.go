package storm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/trace"
)

// Data in the longest frame, in bytes, which the kernel counts as 1,514. Nodes of Pando leave out the time stamps
// of TCP.
const (
	stamped   = 1448
	unstamped = 1460
)

// payload is how much of bytes that the kernel counted on a link are data. segment is the most of a frame; 0: stamped.
func payload(counted int64, segment int) float64 {
	return float64(counted) * float64(cmp.Or(segment, stamped)) / 1514
}

// report is all that was measured, as it is kept.
type report struct {
	Date     time.Time `json:"date"`
	Machine  string    `json:"machine"`
	Command  string    `json:"command"`
	Image    string    `json:"image"`
	Version  string    `json:"version"`
	RootSize int64     `json:"root_size"`
	Until    string    `json:"until,omitempty"` // mark that ends a boot; "": booted
	BootSet  int64     `json:"boot_set"`        // W, bytes
	Pieces   int       `json:"pieces"`          // of the boot pack that W is
	// bytes of the whole boot pack, of which a node keeps what it has room for; 0: not known, W
	Pack   int64             `json:"pack,omitempty"`
	Read   int64             `json:"read"` // bytes that a boot reads
	K      *bench.KernelSize `json:"k,omitempty"`
	Runs   []stormRun        `json:"runs"`
	Faults []stormRun        `json:"faults,omitempty"` // storms in which something went wrong
	Pairs  []stormRun        `json:"pairs,omitempty"`  // storms that were made without a change, and then with it
	WithK  []stormRun        `json:"with_k,omitempty"` // storms from power-on, in which nodes load K first
	Guests []guestRun        `json:"guests,omitempty"` // boots of emulated machines
	Failed []stormRun        `json:"failed,omitempty"` // storms of rivals that came to nothing, and why
}

// stormRun is one storm. Times are in seconds, rates in bits per second, sizes in bytes.
type stormRun struct {
	Release    string    `json:"release,omitempty"` // of Pando; "": not recorded
	Why        string    `json:"why,omitempty"`     // it came to nothing; "": it did not
	Fault      string    `json:"fault,omitempty"`
	Pair       bool      `json:"-"` // it is one of two, and no run like others
	Change     change    `json:"change,omitzero"`
	System     string    `json:"system"`
	Nodes      int       `json:"nodes"`
	NodeRate   int64     `json:"node_rate"`
	ServerRate int64     `json:"server_rate"`
	Again      int       `json:"again"` // 0 for the first run of its kind
	Began      time.Time `json:"began"`
	Unit       float64   `json:"unit"`  // W/(eta B)
	Think      float64   `json:"think"` // in units
	BootSet    int64     `json:"boot_set"`
	Read       int64     `json:"read"`
	RootSize   int64     `json:"root_size"`
	// bytes that links counted around each frame; 0: none, as in the first labs
	Overhead int `json:"frame_overhead,omitempty"`
	Segment  int `json:"segment,omitempty"` // data in the longest frame; 0: stamped

	First        float64    `json:"t_first"` // the first node has booted
	Median       float64    `json:"t_p50"`
	Last         float64    `json:"t_last"`
	Complete     float64    `json:"t_set,omitempty"` // the last node had its boot set; 0: not known
	ServerSent   int64      `json:"server_sent"`     // on its link, all frames
	ServerCPU    float64    `json:"server_cpu"`
	ServerMemory int64      `json:"server_memory"` // most resident
	Load         bench.Load `json:"load"`
	Discarded    bool       `json:"discarded"`      // too busy
	Tell         bool       `json:"tell,omitempty"` // the server knew the nodes, and has their timelines
	K            *runK      `json:"k,omitempty"`    // nodes loaded K first; nil: they had it
	Each         []nodeRun  `json:"each"`
}

// nodeRun is one node of a run.
type nodeRun struct {
	Killed   bool        `json:"killed,omitempty"` // by a fault: it has no times
	Failed   string      `json:"failed,omitempty"` // why it did not boot, or what it read that was wrong; "": it did
	K        *nodeK      `json:"k,omitempty"`      // that it loaded
	Attached float64     `json:"attached"`         // its root can be read
	Booted   float64     `json:"booted"`
	Complete float64     `json:"complete,omitempty"` // all was there that a boot reads; 0: not known
	Stalled  float64     `json:"stalled"`            // time in which the boot stood still for reads
	Wait99   float64     `json:"wait_p99"`
	Link     int64       `json:"link"` // bytes that it received on its link, all frames
	Taken    bench.Usage `json:"taken"`

	Met bool `json:"met,omitempty"` // by a fault that kills peers: one of them had sent it something
	// answers of bad peers that it waited for, early enough to be told of
	Spoiled  int            `json:"spoiled,omitempty"`
	Waited   float64        `json:"waited,omitempty"`   // for one of them, at most, of those after the first ones
	Timeline map[string]int `json:"timeline,omitempty"` // incidents that the server has of its boot, by kind
}

// up reports whether the node booted, and read what it should.
func (n nodeRun) up() bool { return !n.Killed && n.Booted > 0 && n.Failed == "" }

// finish computes what follows from the nodes.
func (r *stormRun) finish() error {
	var times []float64
	for _, n := range r.Each {
		if !n.Killed && n.Failed == "" {
			times = append(times, n.Booted)
		}
	}
	if r.K != nil {
		r.K.finish(r.Each)
	}
	slices.Sort(times)
	if len(times) == 0 && r.failed() {
		return nil // none has a time, and that is known
	}
	if len(times) == 0 || times[0] <= 0 {
		return errors.New("a node has no time")
	}
	r.Complete = r.completed()
	r.First, r.Median, r.Last = times[0], bench.Median(times), times[len(times)-1]
	return nil
}

// completed is when the last node had all that a boot reads; 0: of some it is not known.
func (r *stormRun) completed() (last float64) {
	for _, n := range r.Each {
		if n.Complete == 0 && !n.Killed {
			return 0
		}
		last = max(last, n.Complete)
	}
	return last
}

// mean of a figure of all nodes.
func (r stormRun) mean(of func(nodeRun) float64) float64 {
	sum := 0.0
	for _, n := range r.Each {
		sum += of(n)
	}
	return sum / float64(len(r.Each))
}

// most of a figure of all nodes.
func (r stormRun) most(of func(nodeRun) float64) float64 {
	top := 0.0
	for _, n := range r.Each {
		top = max(top, of(n))
	}
	return top
}

// amplification is what the server sent in units of W.
func (r stormRun) amplification() float64 { return float64(r.ServerSent) / float64(r.BootSet) }

// wire is what a node received on its link, of what it read.
func (r stormRun) wire() float64 {
	return r.mean(func(n nodeRun) float64 { return float64(n.Link) / float64(r.Read) })
}

// share is what came from peers, where that is known.
func (r stormRun) share() string {
	for _, n := range r.Each {
		if len(n.Taken.Received) > 0 {
			return fmt.Sprintf("%.0f %%", r.peers()*100)
		}
	}
	return "-"
}

// peers is the part of what all received that came from peers.
func (r stormRun) peers() float64 {
	all := r.mean(func(n nodeRun) float64 { return sum(n.Taken.Received) })
	if all == 0 {
		return 0
	}
	return r.mean(func(n nodeRun) float64 { return float64(n.Taken.Received["peer"]) }) / all
}

func sum(by map[string]int64) float64 {
	n := int64(0)
	for _, v := range by {
		n += v
	}
	return float64(n)
}

// line is the run in one line, as it ends.
func (r stormRun) line() string {
	if r.Why != "" {
		return fmt.Sprintf("%-8s N=%-4d %8s  FAILED: %s", r.System, r.Nodes, r.links(), r.Why)
	}
	out := fmt.Sprintf(
		"%-8s N=%-4d %8s  last after %6.2f s = %5.2f W/(eta B), server sent %5.2f W, machine %2.0f %% busy (the "+
			"lab %.0f %%)",
		r.System,
		r.Nodes,
		r.links(),
		r.Last,
		r.Last/r.Unit,
		r.amplification(),
		r.Load.Busy*100,
		(r.Load.Own+r.Load.Interrupts)*100,
	)
	if r.failed() {
		out += fmt.Sprintf(": FAILED on %d nodes", r.missing())
	}
	if r.Discarded {
		out += ": DISCARDED, " + r.Load.TooBusy()
	}
	if text := r.unseen(); text != "" {
		out += ": UNSEEN, " + text
	}
	return out
}

func newReport(m *testbed.Material, s *Storm) *report {
	until := ""
	if s.Until != trace.Booted {
		until = string(s.Until)
	}
	return &report{
		Date:     time.Now().UTC(),
		Until:    until,
		Machine:  bench.Machine(),
		Command:  s.command,
		Image:    s.Image,
		Version:  string(m.Version),
		RootSize: m.Manifest.Root.Size,
		BootSet:  m.BootSet,
		Pieces:   m.Pieces,
		Pack:     m.PackSize,
		Read:     m.Read,
		K:        m.Kernel,
	}
}

func (r *report) save(file string) error { return bench.SaveJSON(file, r) }

// add keeps a run.
func (r *report) add(x stormRun) {
	all := &r.Runs
	switch {
	case x.Why != "":
		all = &r.Failed
	case x.Fault != "":
		all = &r.Faults
	case x.K != nil:
		all = &r.WithK
	case x.Pair:
		all = &r.Pairs
	}
	*all = append(*all, x)
}

// total is what all nodes received from a source, in bytes.
func (r stormRun) total(source string) float64 {
	sum := int64(0)
	for _, n := range r.Each {
		sum += n.Taken.Received[source]
	}
	return float64(sum)
}

// storms are all runs of daemons, of whatever kind.
func (r *report) storms() []stormRun { return slices.Concat(r.Runs, r.Faults, r.Pairs, r.WithK) }
