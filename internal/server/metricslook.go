package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
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
	"pando/internal/trace"
)

// Bounds of how often the site is looked at for its metrics, whoever asks.
const (
	// the fleet, and no more than a part of the time: ten thousand nodes took a busy machine 1.3 s
	lookEvery  = 5 * time.Second
	lookPart   = 20
	sizeEvery  = 5 * time.Minute // the store: a file for each object
	firstSize  = 30 * time.Second
	silentTime = 4 * time.Minute // a booted node reports about once a minute
)

// lookouts looks at the site, seldom.
type lookouts struct {
	mu   sync.Mutex
	at   time.Time
	took time.Duration // by the last look
	last metrics.Look

	sizes   sync.Mutex
	counted bool
	count   int
	weight  int64
}

// look is how the site stands.
func (s *Server) look(ctx context.Context) (metrics.Look, error) {
	l := &s.lookouts
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := s.now(); l.at.IsZero() || now.Sub(l.at) >= max(lookEvery, lookPart*l.took) {
		begun := time.Now()
		k, err := s.lookNow(ctx)
		if err != nil {
			return k, err
		}
		l.last, l.at, l.took = k, now, time.Since(begun)
	}
	k := l.last
	s.lookParts(&k)
	return k, nil
}

// lookNow reads the registry.
func (s *Server) lookNow(ctx context.Context) (metrics.Look, error) {
	k := metrics.Look{
		Nodes:    map[metrics.Standing]int{},
		Stages:   map[trace.Stage]int{},
		Drift:    map[string]int{},
		Silent:   map[string]int{},
		Degraded: map[string]int{},
		Rollouts: map[string]int{},
		Leases:   map[string]int{"active": 0, "expired": 0, "bad": 0},
	}
	err := s.registry.View(ctx, func(tx *registry.Tx) error {
		return errors.Join(s.lookNodes(ctx, tx, &k), s.lookLeases(tx, &k), lookRollouts(tx, &k))
	})
	return k, err
}

func (s *Server) lookNodes(ctx context.Context, tx *registry.Tx, k *metrics.Look) error {
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
	progress, err := s.registry.Progress(ctx, ids...)
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
		s.lookNode(k, n, b, progress[b.ID], want(n))
	}
	return nil
}

// lookNode counts an adopted node that booted, or tries to.
func (s *Server) lookNode(k *metrics.Look, n fleet.Node, b registry.Boot, p registry.Progress, want fleet.Digest) {
	if p.State == "" {
		p.State, p.Stage = trace.Booting, trace.DHCP
	}
	run := runOf(b)
	run.Group = n.Group
	k.Nodes[metrics.Standing{Run: run, State: string(p.State)}]++
	if p.State == trace.Booting || p.State == trace.Failed {
		k.Stages[p.Stage]++
	}
	var st api.NodeStatus
	if len(p.Status) > 0 && json.Unmarshal(p.Status, &st) != nil {
		st = api.NodeStatus{} // a status that an older release wrote otherwise says nothing here
	}
	k.Rejected += st.Rejected
	if p.State != trace.Up {
		return
	}
	running := b.Version
	if st.Version != "" {
		running = st.Version
	}
	if want != "" && running != want {
		k.Drift[n.Group]++
	}
	if s.now().Sub(s.heard.Seen(n)) > silentTime {
		k.Silent[n.Group]++
	}
	if st.Systemd != nil && len(st.Systemd.Failed) > 0 {
		k.Degraded[n.Group]++
	}
}

func (s *Server) lookLeases(tx *registry.Tx, k *metrics.Look) error {
	leases, err := tx.Leases()
	for _, l := range leases {
		switch {
		case l.Bad:
			k.Leases["bad"]++
		case l.Static || l.Expires.After(s.now()):
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

// lookParts asks the parts of this process, which costs nothing.
func (s *Server) lookParts(k *metrics.Look) {
	k.Leases = maps.Clone(k.Leases)
	for _, n := range s.cfg.DHCP.Subnets {
		if n.First.IsValid() {
			k.Range += addresses(n.First.As4(), n.Last.As4())
		}
	}
	loads := s.turns.Status()
	k.Loading, k.Waiting, k.Slots, k.Expect = loads.Loading, loads.Waiting, loads.Slots, loads.Expect
	k.Packs, k.Swarm, k.Events = s.packs.Waiting(), s.swarm.Nodes(), s.registry.Last()
	s.lookouts.sizes.Lock()
	k.Counted, k.Objects, k.Bytes = s.lookouts.counted, s.lookouts.count, s.lookouts.weight
	s.lookouts.sizes.Unlock()
	k.Journals = s.lookJournals()
	k.Registry = map[string]int64{}
	for _, name := range []string{registry.File, registry.EventsFile} {
		k.Registry[name] = fileSize(filepath.Join(s.cfg.Dir, name)) + fileSize(filepath.Join(s.cfg.Dir, name+"-wal"))
	}
	var st unix.Statfs_t
	if unix.Statfs(s.store.Path(), &st) == nil {
		k.Free = int64(st.Bavail) * st.Bsize
	}
}

// addresses is how many a range has.
func addresses(first, last [4]byte) int {
	number := func(a [4]byte) int { return int(a[0])<<24 | int(a[1])<<16 | int(a[2])<<8 | int(a[3]) }
	return number(last) - number(first) + 1
}

// fileSize is 0 for what is not there: a log that was written back, for example.
func fileSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// weigh counts the store now and then, beside everything else and at leisure: forty thousand objects take half a
// second of a processor. A server that has just begun may be what machines wait for, so it begins later.
func (s *Server) weigh(ctx context.Context) error {
	for next := firstSize; ; next = sizeEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
		count, weight := 0, int64(0)
		l := leisure{begun: time.Now()}
		err := s.store.EachObject(ctx, func(_ chunk.ID, size int64) {
			count, weight = count+1, weight+size
			l.rest(ctx)
		})
		if err == nil {
			s.lookouts.sizes.Lock()
			s.lookouts.counted, s.lookouts.count, s.lookouts.weight = true, count, weight
			s.lookouts.sizes.Unlock()
		} else if ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Error("metrics: the store was not counted", "err", err)
		}
	}
}

// lookJournals is what becomes of journals, for metrics.
func (s *Server) lookJournals() metrics.Journals {
	l := s.journals.Status()
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
