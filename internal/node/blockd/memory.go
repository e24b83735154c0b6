package blockd

import (
	"pando/internal/blockapi"
)

// blockGarbage is the growth of the heap in percent that triggers a garbage collection (GOGC).
const blockGarbage = 100

// blockHeap bounds the block daemon's heap in bytes, without the parts that memoryLimit adds. Near the limit the
// collector takes most of a processor, so a boot must stay well below it.
const blockHeap = 18 << 20

// memoryLimit returns the heap limit in bytes of a daemon whose boot pack has size bytes, on a machine with memory
// bytes.
func memoryLimit(c blockapi.Config, size, memory int64) int64 {
	limit := blockHeap + cacheHeapOf(c)
	// A pack that is kept whole is not in the heap.
	if keep := blockapi.KeepOf(size, memory, c.Keep); keep < size {
		limit += keep
	}
	if c.Swarm != nil {
		limit += int64(demandBytes(c)) + blockPeers
	}
	return limit
}
