package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// How the board is kept current. Events update it as they arrive. Changes without an event, such as a group's image,
// appear when the fleet is read again. A fleet that takes long to read is read less often.
const (
	readEvery  = 10 * time.Second
	readCost   = 20 // reading takes at most 1/readCost of the time
	restsAfter = time.Minute
)

// board is a copy of the fleet in memory while a browser shows it: it is read once, then events update it, and each
// browser gets the tiles that changed.
type board struct {
	api  *api.Client
	feed Feed
	now  func() time.Time
	log  *slog.Logger

	mu          sync.Mutex
	tiles       []tile // in the order of the API
	at          map[string]int
	epoch       string        // distinguishes this board's revisions from those before a restart
	rev         int64         // grows with every change
	shape       int64         // rev when nodes were added, removed or moved on the map
	news        chan struct{} // closed when rev grows
	used        time.Time     // time of the last use
	running     bool
	unknownNode bool // an event came from a node that is not on the board
	cost        time.Duration
	asked       chan struct{} // requests to read the fleet now
}

func newBoard(c *api.Client, f Feed, now func() time.Time, log *slog.Logger) *board {
	return &board{
		api:   c,
		feed:  f,
		now:   now,
		log:   log,
		epoch: rand.Text(),
		news:  make(chan struct{}),
		asked: make(chan struct{}, 1),
	}
}

// look starts the board if it rests, and returns when it is current. It uses the clock of the process: how long nobody
// used the board has nothing to do with the site's time.
func (b *board) look(ctx context.Context) error {
	b.mu.Lock()
	b.used = time.Now()
	if b.running {
		b.mu.Unlock()
		return nil
	}
	b.mu.Unlock()
	after := b.feed.Last()
	if err := b.read(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		b.running = true
		go b.run(after)
	}
	return nil
}

// run applies events to the board until nobody has used it for restsAfter.
func (b *board) run(after int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- b.feed.Follow(ctx, after, func(e trace.Event) error { b.apply(e); return nil })
	}()
	read := time.NewTimer(readEvery)
	defer read.Stop()
	for {
		select {
		case <-ended: // the server stops
			b.rest()
			return
		case <-b.asked:
		case <-read.C:
		}
		if b.idle() {
			return
		}
		if err := b.read(ctx); err != nil && !errors.Is(err, context.Canceled) {
			b.log.Warn("dashboard cannot read the fleet", "err", err)
		}
		read.Reset(b.pause())
	}
}

// idle stops the board and drops its tiles if nobody uses it.
func (b *board) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.used) < restsAfter {
		return false
	}
	b.running, b.tiles, b.at = false, nil, nil
	return true
}

func (b *board) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = false
}

func (b *board) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := max(readEvery, readCost*b.cost)
	if b.unknownNode { // a new machine should appear soon
		b.unknownNode = false
		wait = max(time.Second, 4*b.cost)
	}
	return wait
}

// refresh makes the board read the fleet soon, because an operator has just changed something.
func (b *board) refresh() {
	select {
	case b.asked <- struct{}{}:
	default: // a read is requested already
	}
}

// read reads the fleet from the API.
func (b *board) read(ctx context.Context) error {
	begun := time.Now()
	nodes, err := b.api.Nodes(ctx, "")
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cost = time.Since(begun)
	b.take(nodes)
	return nil
}

// take replaces the board by what was read. The caller holds mu.
func (b *board) take(nodes []api.Node) {
	old, was := b.tiles, b.at
	b.tiles, b.at = make([]tile, len(nodes)), make(map[string]int, len(nodes))
	next, moved := b.rev+1, len(old) != len(nodes)
	changed := moved
	for i, n := range nodes {
		t := newTile(n)
		b.at[n.Name] = i
		if j, ok := was[n.Name]; ok {
			t.rev = old[j].rev
			if t.fold.Updated.Before(old[j].fold.Updated) { // an event arrived while the fleet was read
				t.boot, t.fold, t.state = old[j].boot, old[j].fold, old[j].state
				t.seen, t.running = old[j].seen, old[j].running
			}
			if !same(&t, &old[j]) {
				t.rev, changed = next, true
			}
			moved = moved || i != j || !samePlace(t.node, old[j].node)
		} else {
			t.rev, moved, changed = next, true, true
		}
		b.tiles[i] = t
	}
	if moved {
		b.shape = next
	}
	if changed || moved {
		b.grow(next)
	}
}

func same(a, b *tile) bool {
	return a.boot == b.boot && a.state == b.state && a.fold.Stage == b.fold.Stage &&
		a.fold.Failure == b.fold.Failure &&
		a.running == b.running && a.desired == b.desired &&
		a.node.State == b.node.State
}

// samePlace reports whether a node stays at its position on every map.
func samePlace(a, b fleet.Node) bool {
	if a.Name != b.Name || a.Group != b.Group || len(a.Labels) != len(b.Labels) {
		return false
	}
	for k, v := range a.Labels {
		if b.Labels[k] != v {
			return false
		}
	}
	return true
}

// apply updates the board by an event.
func (b *board) apply(e trace.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := b.at[e.Node]
	if !ok {
		if e.Node != "" && !b.unknownNode {
			b.unknownNode = true
			b.refresh()
		}
		return
	}
	b.tiles[i].apply(e)
	b.tiles[i].rev = b.rev + 1
	b.grow(b.rev + 1)
}

// grow publishes a new revision. The caller holds mu.
func (b *board) grow(rev int64) {
	b.rev = rev
	close(b.news)
	b.news = make(chan struct{})
}

// state is a copy of the board at a revision.
type state struct {
	tiles      []tile
	rev, shape int64
	news       <-chan struct{}
}

// since returns the tiles that changed after a revision; after 0, all tiles.
func (b *board) since(rev int64) state {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = time.Now()
	s := state{rev: b.rev, shape: b.shape, news: b.news}
	for i := range b.tiles {
		if b.tiles[i].rev > rev {
			s.tiles = append(s.tiles, b.tiles[i])
		}
	}
	return s
}

// each calls fn for every tile. fn must not keep the tile.
func (b *board) each(fn func(*tile)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.tiles {
		fn(&b.tiles[i])
	}
}

// mark encodes a revision for browsers, together with the board's epoch.
func (b *board) mark(rev int64) string { return b.epoch + "." + strconv.FormatInt(rev, 10) }

// revision is the inverse of mark. It returns 0 for a mark of another board.
func (b *board) revision(mark string) int64 {
	rest, ok := strings.CutPrefix(mark, b.epoch+".")
	rev, err := strconv.ParseInt(rest, 10, 64)
	if !ok || err != nil {
		return 0
	}
	return rev
}
