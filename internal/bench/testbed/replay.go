package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"pando/internal/chunk"
)

// Replay makes the reads of a boot, with pauses by think, and compares every byte. It returns how long each read
// waited. dev has to fail its reads when ctx is done.
func (m *Material) Replay(
	ctx context.Context,
	dev io.ReaderAt,
	bursts []Burst,
	think func(context.Context, time.Duration) error,
) ([]time.Duration, error) {
	waits := make([]time.Duration, len(m.want))
	for _, b := range bursts {
		if err := think(ctx, b.Think); err != nil {
			return nil, err
		}
		errs := make([]error, b.End-b.First)
		var all sync.WaitGroup
		for i := b.First; i < b.End; i++ {
			all.Go(func() { waits[i], errs[i-b.First] = m.readOne(dev, i) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, err
		}
	}
	return waits, nil
}

func (m *Material) readOne(dev io.ReaderAt, i int) (time.Duration, error) {
	begin := time.Now()
	p := make([]byte, len(m.want[i]))
	if _, err := dev.ReadAt(p, int64(m.Boot.reads[i].Start)*chunk.BlockSize); err != nil {
		return 0, err
	}
	wait := time.Since(begin)
	if !bytes.Equal(p, m.want[i]) {
		return 0, fmt.Errorf(
			"read %d, of %d blocks at %d: wrong bytes",
			i,
			m.Boot.reads[i].Blocks,
			m.Boot.reads[i].Start,
		)
	}
	return wait, nil
}

// Stall returns how long the boot waited for its reads: the sum of the longest wait of each burst.
func Stall(waits []time.Duration, bursts []Burst) time.Duration {
	sum := time.Duration(0)
	for _, b := range bursts {
		sum += slices.Max(waits[b.First:b.End])
	}
	return sum
}
