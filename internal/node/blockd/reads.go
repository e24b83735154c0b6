package blockd

import (
	"math"
	"sync"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// maxRecorded bounds the recording, at 12 bytes a read. A desktop's boot makes about 15,000 reads.
const maxRecorded = 32 << 10

// readRecorder records the kernel's reads in order until the recording is ended.
type readRecorder struct {
	mu      sync.Mutex
	start   time.Time     // when the device was ready; zero: not yet
	began   time.Duration // the same moment by CLOCK_MONOTONIC
	reads   []recordedRead
	partial bool
	cut     bool // reads beyond maxRecorded were dropped
	ended   *blockapi.Recording
}

// recordedRead is a trace.Read that takes less memory.
type recordedRead struct {
	start  uint32
	ms     uint32
	blocks uint16
}

// newReadRecorder starts a recording. partial means that earlier reads of the boot are missing.
func newReadRecorder(partial bool) *readRecorder { return &readRecorder{partial: partial} }

// begin sets the time that reads are measured from.
func (r *readRecorder) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.began = time.Now(), rundir.Monotonic()
}

// note records a read of n bytes at off.
func (r *readRecorder) note(off int64, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil || n <= 0 {
		return
	}
	if len(r.reads) == maxRecorded {
		r.cut = true // no loss: a boot pack is for the first reads
		return
	}
	at := time.Duration(0)
	if !r.start.IsZero() {
		at = time.Since(r.start)
	}
	first, last := off/chunk.BlockSize, (off+int64(n)-1)/chunk.BlockSize
	r.reads = append(r.reads, recordedRead{start: uint32(first), blocks: uint16(min(last-first+1, math.MaxUint16)),
		ms: uint32(min(at.Milliseconds(), math.MaxUint32))})
}

// end ends the recording and frees its memory. The first call lets account fill in the other fields; later calls
// return the same.
func (r *readRecorder) end(account func(*blockapi.Recording)) blockapi.Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		reads := make([]trace.Read, len(r.reads))
		for i, x := range r.reads {
			reads[i] = trace.Read{Start: x.start, Blocks: uint32(x.blocks), At: time.Duration(x.ms) * time.Millisecond}
		}
		r.ended = &blockapi.Recording{
			Began:   r.began,
			Reads:   trace.EncodeReads(reads),
			Count:   len(reads),
			Partial: r.partial,
			Cut:     r.cut,
		}
		account(r.ended)
		r.reads = nil
	}
	return *r.ended
}
