package admission

import (
	"context"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/netboot"
)

// Queue admits nodes that want to load kernel and initramfs. It is in memory only: after a restart of the server nodes
// request again, in a new order.
type Queue struct {
	links netboot.Links
	now   func() time.Time
	Busy  func(bool) // told when it changes whether K fills the link; set before the first question

	Mu    sync.Mutex
	queue *netboot.Queue
	full  bool                          // what busy was told last
	again bool                          // while it is full, somebody looks again
	Lines map[fleet.MAC]chan<- struct{} // of those who are kept on the line; closed when their turn has come
}

// New returns an empty queue for links of these rates.
func New(l netboot.Links, now func() time.Time) *Queue {
	return &Queue{links: l, now: now, Busy: func(bool) {}, queue: netboot.NewQueue(l),
		Lines: map[fleet.MAC]chan<- struct{}{}}
}

// Ask returns the turn of a machine: place 0 means that it may load now.
func (t *Queue) Ask(mac fleet.MAC) netboot.Turn {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	defer t.look()
	return t.queue.Ask(t.now(), mac)
}

// Wait blocks until a machine is admitted, for at most that long, or until its request is cancelled.
func (t *Queue) Wait(ctx context.Context, mac fleet.MAC, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	called, leave := t.Hold(mac)
	defer leave()
	select {
	case <-called:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Admit returns when a running node is admitted; it waits in the same queue as machines whose firmware waits. It
// returns an error if the request is cancelled.
func (t *Queue) Admit(ctx context.Context, mac fleet.MAC) error {
	for {
		turn := t.Ask(mac)
		if turn.Place == 0 {
			return nil
		}
		if turn.Hold > 0 {
			t.Wait(ctx, mac, turn.Hold)
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

// Hold adds a machine to the queue. A second request of the machine replaces its first one.
func (t *Queue) Hold(mac fleet.MAC) (called <-chan struct{}, leave func()) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	line := make(chan struct{})
	t.Lines[mac] = line
	t.queue.Hold(t.now(), mac)
	t.look() // a slot may have become free since it asked
	return line, func() {
		t.Mu.Lock()
		defer t.Mu.Unlock()
		if t.Lines[mac] == line {
			delete(t.Lines, mac)
			t.queue.Leave(mac)
		}
	}
}

// look calls those on the line who have a slot now, and tells when the link becomes full of K, or free again. There are
// twice as many slots as fill it. Callers hold mu.
func (t *Queue) look() {
	for _, mac := range t.queue.Called(t.now()) {
		close(t.Lines[mac])
		delete(t.Lines, mac)
	}
	s := t.queue.State(t.now())
	if full := s.Loading > s.Slots/2; full != t.full {
		t.full = full
		t.Busy(full)
	}
	if t.full && !t.again { // machines that were switched off say nothing, and nobody else may
		t.again = true
		time.AfterFunc(fullLook, t.lookAgain)
	}
}

// fullLook is how often somebody looks whether the link is still full of K.
const fullLook = 5 * time.Second

func (t *Queue) lookAgain() {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.again = false
	t.look()
}

// Transfer is a part of K that is being sent to a node.
type Transfer struct {
	Queue  *Queue
	mac    fleet.MAC
	number uint64
}

// Begin records the begin of a transfer. The zero Transfer is one that needs no admission.
func (t *Queue) Begin(mac fleet.MAC) Transfer {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	defer t.look()
	return Transfer{t, mac, t.queue.Begin(t.now(), mac)}
}

// Sent notes that bytes left, and how many of the load are still to be sent: few make room for the next node.
func (x Transfer) Sent(bytes, left int64) {
	if x.Queue == nil {
		return
	}
	if x.heard(bytes) >= left {
		x.End()
	}
}

// heard notes that bytes left, and tells how many of a load need no slot.
func (x Transfer) heard(bytes int64) (rest int64) {
	x.Queue.Mu.Lock()
	defer x.Queue.Mu.Unlock()
	x.Queue.queue.SawTransfer(x.Queue.now(), x.mac, x.number, bytes)
	return x.Queue.queue.Rest()
}

// End frees the node's slot, if it has it still.
func (x Transfer) End() {
	if x.Queue == nil {
		return
	}
	x.Queue.Mu.Lock()
	defer x.Queue.Mu.Unlock()
	x.Queue.queue.End(x.Queue.now(), x.mac, x.number)
	x.Queue.look()
}

// Status returns the state of the queue for the operator.
func (t *Queue) Status() api.Loads {
	t.Mu.Lock()
	defer t.Mu.Unlock()
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
