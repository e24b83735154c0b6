package testbed

import (
	"context"
	"fmt"
	"time"

	"pando/internal/bench"
	"pando/internal/node/blockd"
)

// BlockRoot is a root that a block daemon serves.
type BlockRoot struct {
	*blockd.Alone
	began time.Time // when its daemon was started
}

// ReadAt reads from the block device as the kernel does.
func (p *BlockRoot) ReadAt(b []byte, off int64) (int, error) { return p.Device.ReadAt(b, off) }

// Usage returns what the daemon received, what it served without a fetch, and the processor time and memory that it
// used.
func (p *BlockRoot) Usage(ctx context.Context) (bench.Usage, error) {
	st, err := p.Client.Status(ctx, 0)
	if err != nil {
		return bench.Usage{}, err
	}
	t := bench.Usage{
		Received:  map[string]int64{},
		Served:    map[string]int64{},
		Failures:  st.Failures + st.Rejected,
		Rejected:  st.Rejected,
		Messages:  st.Messages,
		Control:   st.Control,
		Usual:     st.Usual.Seconds(),
		Incidents: map[string]int{},
		Fed:       st.Fed,
	}
	for _, i := range st.Incidents {
		t.Incidents[string(i.Kind)]++
	}
	for source, bytes := range st.Bytes {
		if source == "server" || source == "peer" {
			t.Received[source] = bytes
		} else {
			t.Served[source] = bytes
		}
	}
	if st.Errors > 0 {
		return t, fmt.Errorf("%d reads were answered with an error", st.Errors)
	}
	if t.CPU, t.Memory, err = bench.ProcessCost(p.PID()); err != nil {
		return t, err
	}
	r, err := p.Client.EndReads(ctx)
	t.Hits, t.Misses, t.Wasted = r.Hits, r.Misses, r.Wasted
	return t, err
}

// Complete returns when all pieces until booted had arrived or, with beyond, all pieces of the boot pack. It is zero if
// they have not.
func (p *BlockRoot) Complete(ctx context.Context, beyond bool) (time.Time, error) {
	st, err := p.Client.Status(ctx, 0)
	took := st.Complete
	if beyond {
		took = st.Whole
	}
	if err != nil || took == 0 {
		return time.Time{}, err
	}
	return p.began.Add(took), nil
}
