package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/netboot"
)

// Queue admits nodes that want to load kernel and initramfs. It is in memory only: after a restart of the server nodes
// request again, in a new order.
type Queue struct {
	links netboot.Links // as they are known
	now   func() time.Time
	Busy  func(bool) // called when the link becomes full of kernel+initrd, or free; set before the first request

	mu       sync.Mutex
	queue    *netboot.Queue
	full     bool                          // what busy was told last
	checking bool                          // while the link is full, a timer checks it again
	waiting  map[fleet.MAC]chan<- struct{} // of those who are kept on the line; closed when their turn has come
	nodes    nodeLinks

	nodeLink atomic.Int64
}

// New returns an empty queue for links of these rates.
func New(l netboot.Links, now func() time.Time) *Queue {
	return &Queue{links: l, now: now, Busy: func(bool) {}, queue: netboot.NewQueue(l),
		waiting: map[fleet.MAC]chan<- struct{}{}}
}

// Request returns the admission of a machine: place 0 means that it may load now.
func (t *Queue) Request(mac fleet.MAC) netboot.Admission {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.admitNext()
	return t.queue.Request(t.now(), mac)
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
		answer := t.Request(mac)
		if answer.Place == 0 {
			return nil
		}
		if answer.Hold > 0 {
			t.Wait(ctx, mac, answer.Hold)
		} else {
			select {
			case <-time.After(answer.Sleep):
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
	t.mu.Lock()
	defer t.mu.Unlock()
	waiter := make(chan struct{})
	t.waiting[mac] = waiter
	t.queue.Hold(t.now(), mac)
	t.admitNext() // a slot may have become free since its request
	return waiter, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.waiting[mac] == waiter {
			delete(t.waiting, mac)
			t.queue.Leave(mac)
		}
	}
}

// Held reports whether a machine's request is held until it is admitted.
func (t *Queue) Held(mac fleet.MAC) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[mac] != nil
}

// admitNext admits waiting machines that have a slot now, and calls Busy when the link becomes full of kernel+initrd,
// or free again. There are twice as many slots as fill it. Callers hold mu.
func (t *Queue) admitNext() {
	for _, mac := range t.queue.Called(t.now()) {
		close(t.waiting[mac])
		delete(t.waiting, mac)
	}
	s := t.queue.State(t.now())
	if full := s.Loading > s.Slots/2; full != t.full {
		t.full = full
		t.Busy(full)
	}
	if t.full && !t.checking { // machines that were switched off send nothing
		t.checking = true
		time.AfterFunc(fullCheck, t.checkAgain)
	}
}

// fullCheck is how often the queue checks whether the link is still full.
const fullCheck = 5 * time.Second

func (t *Queue) checkAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checking = false
	t.admitNext()
}

// Transfer is the sending of kernel or initrd to a node.
type Transfer struct {
	Queue  *Queue
	mac    fleet.MAC
	number uint64
}

// Begin records the begin of a transfer. The zero Transfer is one that needs no admission.
func (t *Queue) Begin(mac fleet.MAC) Transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.admitNext()
	return Transfer{t, mac, t.queue.Begin(t.now(), mac)}
}

// Sent records sent bytes, and how many of the load are left: when few are left the next node gets the slot.
func (x Transfer) Sent(bytes, left int64) {
	if x.Queue == nil {
		return
	}
	if x.record(bytes) >= left {
		x.End()
	}
}

// record records sent bytes, and returns how many bytes at the end of a load need no slot.
func (x Transfer) record(bytes int64) (rest int64) {
	x.Queue.mu.Lock()
	defer x.Queue.mu.Unlock()
	x.Queue.queue.SawTransfer(x.Queue.now(), x.mac, x.number, bytes)
	return x.Queue.queue.Rest()
}

// End frees the node's slot, if it still has it.
func (x Transfer) End() {
	if x.Queue == nil {
		return
	}
	x.Queue.mu.Lock()
	defer x.Queue.mu.Unlock()
	x.Queue.queue.End(x.Queue.now(), x.mac, x.number)
	x.Queue.admitNext()
}

// Status returns the state of the queue for the operator.
func (t *Queue) Status() api.Loads {
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
