package blockd

import (
	"pando/internal/blockapi"
)

// blockGarbage is by how many percent the block daemon's heap grows before garbage is collected.
const blockGarbage = 100

// blockHeap bounds the block daemon's heap, in bytes, beside what memoryLimit adds. Near it the collector takes most of
// a processor, so a boot is to stay well below.
const blockHeap = 18 << 20

// memoryLimit bounds the heap of a daemon whose boot pack has size bytes, on a machine with so much memory.
func memoryLimit(c blockapi.Config, size, memory int64) int64 {
	limit := blockHeap + cacheHeapOf(c)
	// A pack that is kept whole lies beside the heap.
	if keep := blockapi.KeepOf(size, memory, c.Keep); keep < size {
		limit += keep
	}
	if c.Swarm != nil {
		limit += int64(demandBytes(c)) + blockPeers
	}
	return limit
}
