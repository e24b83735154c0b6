package admit

import (
	"context"
	"fmt"
	"sync/atomic"

	"pando/internal/testkit"
)

// tally has the sums over all machines.
type tally struct {
	bytes, kernels    atomic.Int64
	loading, together atomic.Int64 // number that load now; largest number at the same time
	slept, asked      atomic.Int64 // seconds of sleep that scripts asked for; script requests
}

// Write counts bytes.
func (y *tally) Write(b []byte) (int, error) { y.bytes.Add(int64(len(b))); return len(b), nil }

// load is a machine that obeys its scripts, as iPXE does, until it has K.
func (l *loaders) load(ctx context.Context, i int, y *tally) error {
	n := l.star.Nodes[i]
	if err := discover(n, 200, "PXEClient:Arch:00000:UNDI:002001", "iPXE"); err != nil {
		return err
	}
	f := testkit.NewLoader(n, l.macs[i], fmt.Sprintf("http://%s:8480", subnet.Addr()), "amd64")
	k, err := f.Admitted(ctx)
	y.asked.Add(int64(f.Asked))
	y.slept.Add(int64(f.Slept.Seconds()))
	if err != nil {
		return err
	}
	return y.loads(ctx, f, k)
}

// loads fetches kernel and initramfs.
func (y *tally) loads(ctx context.Context, f *testkit.Loader, k testkit.Script) error {
	now := y.loading.Add(1)
	defer y.loading.Add(-1)
	for most := y.together.Load(); now > most; most = y.together.Load() {
		if y.together.CompareAndSwap(most, now) {
			break
		}
	}
	if _, err := f.Fetch(ctx, k.Kernel, y); err != nil {
		return err
	}
	y.kernels.Add(1)
	_, err := f.Fetch(ctx, k.Initramfs, y)
	return err
}
