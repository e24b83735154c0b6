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

// Queue admits nodes that want to load kernel and initramfs. It is in memory only: after a restart of the server the
// nodes request again, in a new order.
type Queue struct {
	links netboot.Links // rates as far as they are known
	now   func() time.Time
	Busy  func(bool) // called when kernel+initrd begin or cease to fill the link; set it before the first request

	mu       sync.Mutex
	queue    *netboot.Queue
	full     bool                          // last argument of Busy
	checking bool                          // a timer will check the full link again
	waiting  map[fleet.MAC]chan<- struct{} // machines whose request is held open; closed on admission
	nodes    nodeLinks
	sources  *netboot.Sources
	wants    map[fleet.MAC]netboot.Machine // machines whose request is held open, and that can load from nodes

	nodeLink atomic.Int64
}

// New returns an empty queue for links of these rates.
func New(l netboot.Links, now func() time.Time) *Queue {
	return &Queue{links: l, now: now, Busy: func(bool) {}, queue: netboot.NewQueue(l),
		waiting: map[fleet.MAC]chan<- struct{}{}, sources: netboot.NewSources(),
		wants: map[fleet.MAC]netboot.Machine{}}
}

// Request returns the admission of a machine. Place 0 means that it may load now.
func (t *Queue) Request(mac fleet.MAC) netboot.Admission {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.admitNext()
	return t.queue.Request(t.now(), mac)
}

// Wait blocks until a machine is admitted, most is over, or ctx ends.
func (t *Queue) Wait(ctx context.Context, mac fleet.MAC, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	called, leave := t.Hold(mac, most)
	defer leave()
	select {
	case <-called:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Admit waits until a running node is admitted, in the same queue as booting machines. It returns an error if ctx ends.
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

// Hold holds a machine's request open, for most at most: called is closed on its admission. leave ends the hold. A
// second request of a machine replaces its first one.
func (t *Queue) Hold(mac fleet.MAC, most time.Duration) (called <-chan struct{}, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waiter := make(chan struct{})
	t.waiting[mac] = waiter
	t.queue.Hold(t.now(), mac, most)
	t.admitNext() // a slot may have become free since its request
	return waiter, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.waiting[mac] == waiter {
			delete(t.waiting, mac)
			delete(t.wants, mac)
			t.queue.Leave(mac)
		}
	}
}

// Held reports whether a machine's request is held open.
func (t *Queue) Held(mac fleet.MAC) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting[mac] != nil
}

// admitNext admits the machines that have a slot now, and calls Busy when kernel+initrd begin or cease to fill the
// link: half of the slots fill it. The caller holds mu.
func (t *Queue) admitNext() {
	for _, mac := range append(t.queue.Called(t.now()), t.sentToSources()...) {
		close(t.waiting[mac])
		delete(t.waiting, mac)
		delete(t.wants, mac)
	}
	s := t.queue.State(t.now())
	if full := s.Loading > s.Slots/2; full != t.full {
		t.full = full
		t.Busy(full)
	}
	if (t.full || len(t.waiting) > 0) && !t.checking { // a machine that was switched off reports nothing
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

// Transfer is a transfer of kernel or initrd to a node.
type Transfer struct {
	Queue  *Queue
	mac    fleet.MAC
	number uint64
}

// Begin records the start of a transfer. The zero Transfer needs no admission.
func (t *Queue) Begin(mac fleet.MAC) Transfer {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.admitNext()
	return Transfer{t, mac, t.queue.Begin(t.now(), mac)}
}

// Sent records sent bytes, and how many bytes of the load are left. When few are left, the slot becomes free.
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

// End frees the node's slot, if the node still has it.
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
