package storm

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

// replay makes the reads of a boot, which thinks between them, and compares every byte. It returns how long each
// read waited. To give up when ctx is done is up to dev.
func (m *material) replay(
	ctx context.Context,
	dev io.ReaderAt,
	bursts []burst,
	think func(context.Context, time.Duration) error,
) ([]time.Duration, error) {
	waits := make([]time.Duration, len(m.want))
	for _, b := range bursts {
		if err := think(ctx, b.think); err != nil {
			return nil, err
		}
		errs := make([]error, b.end-b.first)
		var all sync.WaitGroup
		for i := b.first; i < b.end; i++ {
			all.Go(func() { waits[i], errs[i-b.first] = m.readOne(dev, i) })
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

func (m *material) readOne(dev io.ReaderAt, i int) (time.Duration, error) {
	begin := time.Now()
	p := make([]byte, len(m.want[i]))
	if _, err := dev.ReadAt(p, int64(m.boot.reads[i].Start)*chunk.BlockSize); err != nil {
		return 0, err
	}
	wait := time.Since(begin)
	if !bytes.Equal(p, m.want[i]) {
		return 0, fmt.Errorf(
			"read %d, of %d blocks at %d: wrong bytes",
			i,
			m.boot.reads[i].Blocks,
			m.boot.reads[i].Start,
		)
	}
	return wait, nil
}

// stall is how long the boot stood still for its reads: of a burst, the longest wait.
func stall(waits []time.Duration, bursts []burst) time.Duration {
	sum := time.Duration(0)
	for _, b := range bursts {
		sum += slices.Max(waits[b.first:b.end])
	}
	return sum
}
