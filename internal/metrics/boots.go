package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// bootBuckets are the seconds from a boot's first packet to its default target: from a small machine with a full cache
// to one that waits in a storm behind a slow link.
var bootBuckets = []float64{5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800}

// nativeFactor is the ratio of the widths of neighbouring buckets in native histograms.
const nativeFactor = 1.1

// maxBoots limits the boots that are followed at once. A boot that was dropped is read again from the registry at its
// next event.
const maxBoots = 16384

// sources are the labels for the sources of bytes. Other names that nodes report count as "other".
var sources = []string{trace.SourceK, trace.SourceNeighbour, "server", "bucket", "peer", "cache", "zero", "disk"}

// bootMeters counts boots from their events.
type bootMeters struct {
	ended    *prometheus.CounterVec
	failures *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	refused  prometheus.Counter
	took     *prometheus.HistogramVec

	mu    *sync.Mutex
	known map[fleet.BootID]*followed
	order *recent[fleet.BootID]
	runs  *recent[Run]
}

// followed is a boot in progress.
type followed struct {
	progress trace.Progress
	counted  trace.State // the outcome that was counted already
}

func newBootMeters() bootMeters {
	m := bootMeters{
		mu:    &sync.Mutex{},
		known: map[fleet.BootID]*followed{},
		order: &recent[fleet.BootID]{most: maxBoots},
		runs:  &recent[Run]{most: maxRuns},
		ended: counter(
			"pando_boots_total",
			"Boots by outcome: booted, or failed. One that failed and then went on counts for both.",
			append(runNames, "outcome")...),
		failures: counter(
			"pando_boot_failures_total",
			"Failures of boots by the stage that failed. A stage that fails again counts again.",
			"stage",
		),
		bytes: counter(
			"pando_boot_bytes_total",
			"Bytes that nodes received for their boots and while they ran, by source: k (boot loader, kernel and "+
				"initramfs), k-neighbour (kernel and initramfs from nodes), server, bucket, peer, cache (their own "+
				"disks'), zero (read, and never sent).",
			"source",
		),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "pando_boot_kernel_refusals_total",
			Help: "Times that a node did not deliver kernel or initramfs to a machine that boots."}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pando_boot_duration_seconds",
			Help:    "Time of boots from the first packet to the default target.",
			Buckets: bootBuckets, NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: 60},
			runNames),
	}
	for _, s := range append(sources, "other") {
		m.bytes.WithLabelValues(s)
	}
	for _, s := range trace.Stages() {
		m.failures.WithLabelValues(string(s))
	}
	return m
}

func (m *bootMeters) all() []prometheus.Collector {
	return []prometheus.Collector{m.ended, m.failures, m.bytes, m.refused, m.took}
}

// Boots reads what is recorded of boots.
type Boots interface {
	Before(e trace.Event) (trace.Progress, error) // the boot's progress before this event
	Run(id fleet.BootID) (Run, error)
}

// Event counts an event of a boot.
func (s *Site) Event(e trace.Event, boots Boots) error {
	if e.Boot == "" || e.Stage == trace.Rollout {
		return nil
	}
	m := &s.boots
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.follow(e, boots)
	if err != nil {
		return err
	}
	before := f.progress
	before.Bytes = cloned(f.progress.Bytes)
	f.progress.Apply(e)
	m.count(before.Bytes, f.progress.Bytes)
	m.refused.Add(float64(f.progress.Refused - before.Refused))
	if e.Kind == trace.Fail && trace.Rank(e.Stage) >= 0 {
		m.failures.WithLabelValues(string(e.Stage)).Inc()
	}
	state := f.progress.State
	if state == before.State || state != trace.Up && state != trace.Failed {
		return nil
	}
	run, err := boots.Run(e.Boot)
	if err != nil {
		return err
	}
	m.end(f, run, state)
	return nil
}

// follow returns the state of a boot, from memory or from boots.
func (m *bootMeters) follow(e trace.Event, boots Boots) (*followed, error) {
	if gone, forget := m.order.use(e.Boot); forget {
		delete(m.known, gone)
	}
	if f := m.known[e.Boot]; f != nil {
		return f, nil
	}
	p, err := boots.Before(e)
	if err != nil {
		return nil, err
	}
	f := &followed{progress: p}
	if !p.Ready.IsZero() {
		f.counted = trace.Up
	} else if p.State == trace.Failed {
		f.counted = trace.Failed
	}
	m.known[e.Boot] = f
	return f, nil
}

// end counts each outcome of a boot once.
func (m *bootMeters) end(f *followed, run Run, state trace.State) {
	if f.counted == state || f.counted == trace.Up {
		return
	}
	f.counted = state
	if gone, forget := m.runs.use(run); forget {
		m.took.DeleteLabelValues(gone.labels()...)
		for _, outcome := range []string{string(trace.Up), string(trace.Failed)} {
			m.ended.DeleteLabelValues(append(gone.labels(), outcome)...)
		}
	}
	m.ended.WithLabelValues(append(run.labels(), string(state))...).Inc()
	if state == trace.Up {
		m.took.WithLabelValues(run.labels()...).Observe(max(f.progress.Elapsed(), time.Duration(0)).Seconds())
	}
}

// count adds the bytes received since `before`.
func (m *bootMeters) count(before, now map[string]int64) {
	for source, n := range now {
		if d := n - before[source]; d > 0 {
			m.bytes.WithLabelValues(sourceLabel(source)).Add(float64(d))
		}
	}
}

func sourceLabel(source string) string {
	for _, s := range sources {
		if s == source {
			return s
		}
	}
	return "other"
}

func cloned(m map[string]int64) map[string]int64 {
	out := make(map[string]int64, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
