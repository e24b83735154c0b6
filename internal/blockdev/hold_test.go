package blockdev

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// A machine that is busy fetches what boots read until booted, and of the rest what is read. It goes on by itself
// when there is time to spare.
func TestBusyMachineFetchesNothingForLater(t *testing.T) {
	for _, fed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			img := randomImage(t, 160)
			m := img.pack(t, []bootpack.Extent{{Start: 0, Blocks: 160}}, 16) // ten pieces
			m.Booted = 4
			src, r, f := &source{img: img}, &record{}, &feeder{}
			o := r.options(img, src, m)
			var busy atomic.Bool
			busy.Store(true)
			o.Pack.Busy = busy.Load
			if fed {
				o.Pack.Feeder = f
				o.Pack.Kept = func(ctx context.Context, id chunk.ID, size int64) (chunk.Verified, bool) {
					v, err := src.Get(ctx, id, size)
					return v, err == nil
				}
			}
			d, err := Open(t.Context(), src, o)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			for block := int64(0); block < 64; block += 16 {
				if err := d.ReadAt(t.Context(), make([]byte, 16*chunk.BlockSize), block*chunk.BlockSize); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := src.total() - 1; n != m.Booted || d.Reach() != m.Booted {
				t.Errorf(
					"fed %v: %d pieces came to a busy machine, in a reach of %d; want %d",
					fed,
					n,
					d.Reach(),
					m.Booted,
				)
			}
			if err := d.ReadAt(t.Context(), make([]byte, chunk.BlockSize), 100*chunk.BlockSize); err != nil ||
				src.total()-1 != m.Booted+1 {
				t.Errorf("fed %v: %d pieces came after one for later was read, or %v", fed, src.total()-1, err)
			}
			f.mu.Lock()
			told := f.moved
			f.mu.Unlock()
			busy.Store(false)
			time.Sleep(lookSeldom)
			synctest.Wait()
			if n := src.total() - 1; n != len(m.Pieces) || d.Reach() != len(m.Pieces) {
				t.Errorf(
					"fed %v: %d of %d pieces came when there was time, in a reach of %d",
					fed,
					n,
					len(m.Pieces),
					d.Reach(),
				)
			}
			if fed && f.moved == told {
				t.Error("the feeder was not told that there is time")
			}
		})
	}
}
