package server

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// turns is the queue of the nodes that want to load kernel and initramfs. It is in memory only: after a restart of the
// server nodes ask again, and stand where they come.
type turns struct {
	links netboot.Links
	now   func() time.Time
	busy  func(bool) // told when it changes whether K fills the link; set before the first question

	mu    sync.Mutex
	queue *netboot.Queue
	full  bool                          // what busy was told last
	again bool                          // while it is full, somebody looks again
	lines map[fleet.MAC]chan<- struct{} // of those who are kept on the line; closed when their turn has come
}

func newTurns(l netboot.Links, now func() time.Time) *turns {
	return &turns{links: l, now: now, busy: func(bool) {}, queue: netboot.NewQueue(l),
		lines: map[fleet.MAC]chan<- struct{}{}}
}

func (t *turns) ask(mac fleet.MAC) netboot.Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.look()
	return t.queue.Ask(t.now(), mac)
}

// wait keeps a machine on the line until it is its turn, for so long at most, or until it hangs up.
func (t *turns) wait(ctx context.Context, mac fleet.MAC, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	called, leave := t.hold(mac)
	defer leave()
	select {
	case <-called:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// await returns when it is the turn of a node that runs: its channel is no way past those whose firmware waits. An
// error says that it hung up.
func (t *turns) await(ctx context.Context, mac fleet.MAC) error {
	for {
		turn := t.ask(mac)
		if turn.Place == 0 {
			return nil
		}
		if turn.Hold > 0 {
			t.wait(ctx, mac, turn.Hold)
		} else {
			select {
			case <-time.After(turn.Sleep):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// hold puts a machine on the line. Of two questions of one machine the second is the one that it waits with.
func (t *turns) hold(mac fleet.MAC) (called <-chan struct{}, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := make(chan struct{})
	t.lines[mac] = line
	t.queue.Hold(t.now(), mac)
	t.look() // a slot may have become free since it asked
	return line, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.lines[mac] == line {
			delete(t.lines, mac)
			t.queue.Leave(mac)
		}
	}
}

// look calls those on the line who have a slot now, and tells when the link becomes full of K, or free again. There are
// twice as many slots as fill it. Callers hold mu.
func (t *turns) look() {
	for _, mac := range t.queue.Called(t.now()) {
		close(t.lines[mac])
		delete(t.lines, mac)
	}
	s := t.queue.State(t.now())
	if full := s.Loading > s.Slots/2; full != t.full {
		t.full = full
		t.busy(full)
	}
	if t.full && !t.again { // machines that were switched off say nothing, and nobody else may
		t.again = true
		time.AfterFunc(fullLook, t.lookAgain)
	}
}

// fullLook is how often somebody looks whether the link is still full of K.
const fullLook = 5 * time.Second

func (t *turns) lookAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.again = false
	t.look()
}

// transfer is a part of K that is being sent to a node.
type transfer struct {
	turns  *turns
	mac    fleet.MAC
	number uint64
}

// begin notes a transfer. The zero transfer is of what needs no turn.
func (t *turns) begin(mac fleet.MAC) transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.look()
	return transfer{t, mac, t.queue.Begin(t.now(), mac)}
}

// sent notes that bytes left, and how many of the load are still to be sent: few make room for the next node.
func (x transfer) sent(bytes, left int64) {
	if x.turns == nil {
		return
	}
	if x.heard(bytes) >= left {
		x.end()
	}
}

// heard notes that bytes left, and tells how many of a load need no slot.
func (x transfer) heard(bytes int64) (rest int64) {
	x.turns.mu.Lock()
	defer x.turns.mu.Unlock()
	x.turns.queue.Heard(x.turns.now(), x.mac, x.number, bytes)
	return x.turns.queue.Rest()
}

// end frees the node's slot, if it has it still.
func (x transfer) end() {
	if x.turns == nil {
		return
	}
	x.turns.mu.Lock()
	defer x.turns.mu.Unlock()
	x.turns.queue.End(x.turns.now(), x.mac, x.number)
	x.turns.look()
}

// status is how the queue stands, for the operator.
func (t *turns) status() api.Loads {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.queue.State(t.now())
	return api.Loads{
		Slots:    s.Slots,
		Loading:  s.Loading,
		Waiting:  s.Waiting,
		Expect:   s.Expect,
		Uplink:   t.links.Server,
		NodeLink: t.links.Node,
	}
}

// queued tells a machine its place, or that it is kept on the line. The timeline gets one event of it when it is
// told first, however often the machine asks.
func (s *Server) queued(
	ctx context.Context,
	c *bootlog.Entry,
	in netboot.ScriptInput,
	turn netboot.Turn,
	from netip.Addr,
) (netboot.ScriptInput, error) {
	in.Action, in.Node, in.Turn = netboot.Queued, c.Boot.Node, turn
	in.Renew = !s.proven(c, c.MAC, from, exchangeFresh/2)
	waits := c.Queued.After(c.Boot.Scripted) // for this turn, and not for one before
	if turn.Hold == 0 {
		c.Queued = s.now()
	}
	if waits && c.Boot.Addr == from {
		return in, nil
	}
	if err := s.boots.Save(ctx, c, func(b *registry.Boot) { b.Node, b.Addr = c.Boot.Node, from }); err != nil {
		return in, err
	}
	if c.DHCP == trace.Begin {
		s.boots.DHCPDone(c, from)
	}
	if !waits && turn.Hold == 0 {
		s.boots.Record(
			ctx,
			c,
			trace.Event{Stage: trace.Script, Kind: trace.Begin},
			trace.Event{Stage: trace.Script, Kind: trace.Info,
				Message: fmt.Sprintf(
					"waits for its turn: place %d, about %s",
					turn.Place,
					turn.Expect.Round(time.Second),
				)},
		)
	}
	return in, nil
}
