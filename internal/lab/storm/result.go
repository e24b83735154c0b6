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

// The data in the longest frame, in bytes; the kernel counts such a frame as 1,514. Pando's nodes do not use TCP time
// stamps.
const (
	stamped   = 1448
	unstamped = 1460
)

// payload returns how many of the bytes that the kernel counted on a link are data. segment is the data in the longest
// frame; 0: stamped.
func payload(counted int64, segment int) float64 {
	return float64(counted) * float64(cmp.Or(segment, stamped)) / 1514
}

// report is everything that was measured, in the form of the file.
type report struct {
	Date     time.Time `json:"date"`
	Machine  string    `json:"machine"`
	Command  string    `json:"command"`
	Image    string    `json:"image"`
	Version  string    `json:"version"`
	RootSize int64     `json:"root_size"`
	Until    string    `json:"until,omitempty"` // mark that ends a boot; "": booted
	BootSet  int64     `json:"boot_set"`        // W, bytes
	Pieces   int       `json:"pieces"`          // number of pieces of W in the boot pack
	// bytes of the whole boot pack, of which a node keeps as much as it has room for; 0: unknown, use W
	Pack   int64             `json:"pack,omitempty"`
	Read   int64             `json:"read"` // bytes that a boot reads
	K      *bench.KernelSize `json:"k,omitempty"`
	Runs   []stormRun        `json:"runs"`
	Faults []stormRun        `json:"faults,omitempty"` // storms with a fault
	Pairs  []stormRun        `json:"pairs,omitempty"`  // pairs of storms: without a change, and with it
	WithK  []stormRun        `json:"with_k,omitempty"` // storms from power-on: nodes load kernel+initrd (K) first
	Guests []guestRun        `json:"guests,omitempty"` // boots of emulated machines
	Failed []stormRun        `json:"failed,omitempty"` // rivals' storms that failed, with the reason
}

// stormRun is one storm. Times are in seconds, rates in bits per second, sizes in bytes.
type stormRun struct {
	Release    string    `json:"release,omitempty"` // of Pando; "": not recorded
	Why        string    `json:"why,omitempty"`     // it came to nothing; "": it did not
	Fault      string    `json:"fault,omitempty"`
	Pair       bool      `json:"-"` // it is one of a pair and does not count as an ordinary run
	Change     change    `json:"change,omitzero"`
	System     string    `json:"system"`
	Nodes      int       `json:"nodes"`
	NodeRate   int64     `json:"node_rate"`
	ServerRate int64     `json:"server_rate"`
	Again      int       `json:"again"` // 0 for the first run of its kind
	Began      time.Time `json:"began"`
	Unit       float64   `json:"unit"`  // W/(eta B)
	Think      float64   `json:"think"` // in units of Unit
	BootSet    int64     `json:"boot_set"`
	Read       int64     `json:"read"`
	RootSize   int64     `json:"root_size"`
	// bytes per frame that links counted in addition; 0: none, as in early results
	Overhead int `json:"frame_overhead,omitempty"`
	Segment  int `json:"segment,omitempty"` // data in the longest frame; 0: stamped

	First        float64    `json:"t_first"` // when the first node had booted
	Median       float64    `json:"t_p50"`
	Last         float64    `json:"t_last"`
	Complete     float64    `json:"t_set,omitempty"` // when the last node had its boot set; 0: unknown
	ServerSent   int64      `json:"server_sent"`     // on the server's link, all frames
	ServerCPU    float64    `json:"server_cpu"`
	ServerMemory int64      `json:"server_memory"` // largest resident memory
	Load         bench.Load `json:"load"`
	Discarded    bool       `json:"discarded"`      // the machine was too busy
	Tell         bool       `json:"tell,omitempty"` // nodes reported their boots, so that the server has timelines
	K            *runK      `json:"k,omitempty"`    // K was part of the storm; nil: nodes had it already
	Each         []nodeRun  `json:"each"`
}

// nodeRun is one node of a run.
type nodeRun struct {
	Killed   bool        `json:"killed,omitempty"` // by a fault; it has no times then
	Failed   string      `json:"failed,omitempty"` // why it did not boot, or which wrong bytes it read; "": success
	K        *nodeK      `json:"k,omitempty"`      // how it loaded K
	Attached float64     `json:"attached"`         // when its root was readable
	Booted   float64     `json:"booted"`
	Complete float64     `json:"complete,omitempty"` // when it had everything that a boot reads; 0: unknown
	Stalled  float64     `json:"stalled"`            // total time of waits for reads
	Wait99   float64     `json:"wait_p99"`
	Link     int64       `json:"link"` // bytes received on its link, all frames
	Taken    bench.Usage `json:"taken"`

	Met bool `json:"met,omitempty"` // with a fault that kills peers: a killed peer had sent it something
	// bad answers that it waited for, early enough to be reported
	Spoiled  int            `json:"spoiled,omitempty"`
	Waited   float64        `json:"waited,omitempty"`   // longest wait for one of them, except the first ones
	Timeline map[string]int `json:"timeline,omitempty"` // number of incidents on its timeline at the server, by kind
}

// up reports whether the node booted and read the right bytes.
func (n nodeRun) up() bool { return !n.Killed && n.Booted > 0 && n.Failed == "" }

// finish computes the results that follow from the nodes' times.
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
		return nil // no node has a time
	}
	if len(times) == 0 || times[0] <= 0 {
		return errors.New("a node has no time")
	}
	r.Complete = r.completed()
	r.First, r.Median, r.Last = times[0], bench.Median(times), times[len(times)-1]
	return nil
}

// completed returns when the last node had everything that a boot reads; 0: unknown for some node.
func (r *stormRun) completed() (last float64) {
	for _, n := range r.Each {
		if n.Complete == 0 && !n.Killed {
			return 0
		}
		last = max(last, n.Complete)
	}
	return last
}

// mean returns the mean of a figure over all nodes.
func (r stormRun) mean(of func(nodeRun) float64) float64 {
	sum := 0.0
	for _, n := range r.Each {
		sum += of(n)
	}
	return sum / float64(len(r.Each))
}

// most returns the maximum of a figure over all nodes.
func (r stormRun) most(of func(nodeRun) float64) float64 {
	top := 0.0
	for _, n := range r.Each {
		top = max(top, of(n))
	}
	return top
}

// amplification returns what the server sent, in units of W.
func (r stormRun) amplification() float64 { return float64(r.ServerSent) / float64(r.BootSet) }

// wire returns the bytes that a node received on its link, divided by the bytes that it read.
func (r stormRun) wire() float64 {
	return r.mean(func(n nodeRun) float64 { return float64(n.Link) / float64(r.Read) })
}

// share returns the share that came from peers, if it is known.
func (r stormRun) share() string {
	for _, n := range r.Each {
		if len(n.Taken.Received) > 0 {
			return fmt.Sprintf("%.0f %%", r.peers()*100)
		}
	}
	return "-"
}

// peers returns the share of all received bytes that came from peers.
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

// line describes the run in one line, for its end.
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

// add appends a run to the list of its kind.
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

// total returns what all nodes received from a source, in bytes.
func (r stormRun) total(source string) float64 {
	sum := int64(0)
	for _, n := range r.Each {
		sum += n.Taken.Received[source]
	}
	return float64(sum)
}

// storms returns all runs with daemons.
func (r *report) storms() []stormRun { return slices.Concat(r.Runs, r.Faults, r.Pairs, r.WithK) }
