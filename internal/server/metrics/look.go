package metrics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/metrics"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
)

// Limits of how often the site is read for the metrics.
const (
	LookEvery = 5 * time.Second // for the fleet
	lookPart  = 20              // reading takes at most 1/lookPart of the time
	sizeEvery = 5 * time.Minute // for the store, which has a file for each object
	firstSize = 30 * time.Second
)

// Config is what a Lookout needs.
type Config struct {
	Registry  *registry.Registry
	Store     *store.Dir
	Dir       string // data directory, with the files of the registry
	Addresses int    // number of addresses that DHCP may give
	// State returns the state of a node's latest boot.
	State    func(context.Context, fleet.Node, registry.Progress) (trace.State, error)
	Loads    func() api.Loads // nodes that load kernel+initrd now
	Packs    func() int       // number of boot packs that are still to be made
	Swarm    func() int       // number of nodes in the swarm
	Journals func() api.Logs
	Now      func() time.Time
	Log      *slog.Logger
}

// Lookout reads the state of the whole site for the metrics, at limited intervals.
type Lookout struct {
	Config

	mu   sync.Mutex
	at   time.Time
	took time.Duration // duration of the last read
	last metrics.Look

	sizes   sync.Mutex
	counted bool
	count   int
	bytes   int64
}

// New returns a Lookout.
func New(c Config) *Lookout { return &Lookout{Config: c} }

// Look returns the state of the site. Fleet data may be as old as the limits allow; the counters of this process are
// current.
func (l *Lookout) Look(ctx context.Context) (metrics.Look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.Now(); l.at.IsZero() || now.Sub(l.at) >= max(LookEvery, lookPart*l.took) {
		begun := time.Now()
		k, err := l.lookNow(ctx)
		if err != nil {
			return k, err
		}
		l.last, l.at, l.took = k, now, time.Since(begun)
	}
	k := l.last
	l.lookParts(&k)
	return k, nil
}

// lookNow reads the fleet's state from the registry.
func (l *Lookout) lookNow(ctx context.Context) (metrics.Look, error) {
	k := metrics.Look{
		Nodes:    map[metrics.Standing]int{},
		Stages:   map[trace.Stage]int{},
		Drift:    map[string]int{},
		Silent:   map[string]int{},
		Degraded: map[string]int{},
		Rollouts: map[string]int{},
		Leases:   map[string]int{"active": 0, "expired": 0, "bad": 0},
	}
	err := l.Registry.View(ctx, func(tx *registry.Tx) error {
		return errors.Join(l.lookNodes(ctx, tx, &k), l.lookLeases(tx, &k), lookRollouts(tx, &k))
	})
	return k, err
}

func (l *Lookout) lookNodes(ctx context.Context, tx *registry.Tx, k *metrics.Look) error {
	nodes, err := tx.Nodes()
	if err != nil {
		return err
	}
	want, err := fleetview.Desired(tx)
	if err != nil {
		return err
	}
	boots, err := tx.LatestBoots()
	if err != nil {
		return err
	}
	ids := make([]fleet.BootID, 0, len(boots))
	for _, b := range boots {
		ids = append(ids, b.ID)
	}
	progress, err := l.Registry.Progress(ctx, ids...)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.State != fleet.Adopted {
			k.Discovered++
			continue
		}
		b, ok := boots[n.Name]
		if !ok {
			k.Nodes[metrics.Standing{Run: metrics.Run{Group: n.Group}, State: "new"}]++
			continue
		}
		p := progress[b.ID]
		state, err := l.State(ctx, n, p)
		if err != nil {
			return err
		}
		lookNode(k, n, b, p, state, want(n))
	}
	return nil
}

// lookNode counts an adopted node that has booted or is booting.
func lookNode(
	k *metrics.Look,
	n fleet.Node,
	b registry.Boot,
	p registry.Progress,
	state trace.State,
	want fleet.Digest,
) {
	run := runOf(b)
	run.Group = n.Group
	k.Nodes[metrics.Standing{Run: run, State: string(state)}]++
	if state == trace.Booting || state == trace.Failed {
		k.Stages[cmp.Or(p.Stage, trace.DHCP)]++
	}
	var st api.NodeStatus
	if len(p.Status) > 0 && json.Unmarshal(p.Status, &st) != nil {
		st = api.NodeStatus{} // an older release wrote the status in another format
	}
	k.Rejected += st.Rejected
	if !state.Reached() {
		return
	}
	running := b.Version
	if st.Version != "" {
		running = st.Version
	}
	if want != "" && running != want {
		k.Drift[n.Group]++
	}
	switch state {
	case trace.Silent:
		k.Silent[n.Group]++
	case trace.Degraded:
		k.Degraded[n.Group]++
	}
}

func (l *Lookout) lookLeases(tx *registry.Tx, k *metrics.Look) error {
	leases, err := tx.Leases()
	for _, x := range leases {
		switch {
		case x.Bad:
			k.Leases["bad"]++
		case x.Static || x.Expires.After(l.Now()):
			k.Leases["active"]++
		default:
			k.Leases["expired"]++
		}
	}
	return err
}

func lookRollouts(tx *registry.Tx, k *metrics.Look) error {
	all, err := tx.Rollouts(registry.RolloutFilter{Live: true})
	for _, r := range all {
		k.Rollouts[string(r.State)]++
	}
	return err
}

// lookParts adds the counters of this process, which cost nothing to read.
func (l *Lookout) lookParts(k *metrics.Look) {
	k.Leases = maps.Clone(k.Leases)
	k.Range = l.Addresses
	loads := l.Loads()
	k.Loading, k.Waiting, k.Slots, k.Expect = loads.Loading, loads.Waiting, loads.Slots, loads.Expect
	k.Packs, k.Swarm, k.Events = l.Packs(), l.Swarm(), l.Registry.Last()
	l.sizes.Lock()
	k.Counted, k.Objects, k.Bytes = l.counted, l.count, l.bytes
	l.sizes.Unlock()
	k.Journals = journals(l.Journals())
	k.Registry = map[string]int64{}
	for _, name := range []string{registry.File, registry.EventsFile} {
		k.Registry[name] = fileSize(filepath.Join(l.Dir, name)) + fileSize(filepath.Join(l.Dir, name+"-wal"))
	}
	var st unix.Statfs_t
	if unix.Statfs(l.Store.Path(), &st) == nil {
		k.Free = int64(st.Bavail) * st.Bsize
	}
}

// fileSize returns the size of a file; 0 if it does not exist, such as a write-ahead log after a checkpoint.
func fileSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// CountStore counts the objects of the store every few minutes until ctx ends. It is throttled, and starts some time
// after the server, because machines may be waiting for the server then.
func (l *Lookout) CountStore(ctx context.Context) error {
	for next := firstSize; ; next = sizeEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
		count, bytes := 0, int64(0)
		t := throttle{begun: time.Now()}
		err := l.Store.EachObject(ctx, func(_ chunk.ID, size int64) {
			count, bytes = count+1, bytes+size
			t.rest(ctx)
		})
		if err == nil {
			l.sizes.Lock()
			l.counted, l.count, l.bytes = true, count, bytes
			l.sizes.Unlock()
		} else if ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
			l.Log.Error("objects of the store cannot be counted for the metrics", "err", err)
		}
	}
}

// journals converts the state of the kept journals for the metrics.
func journals(l api.Logs) metrics.Journals {
	return metrics.Journals{
		Up:      l.State == api.LogsOn,
		Size:    l.Held,
		Limit:   l.Bound,
		Entries: l.Entries,
		Bytes:   l.Bytes,
		Uploads: l.Uploads,
		Last:    l.Last,
		Full:    l.Full,
	}
}
