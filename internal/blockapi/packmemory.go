package blockapi

// A node keeps compressed pieces of the boot pack in 1/keepPart of its memory, between leastKeep and MostKeep bytes.
// Keeping the whole pack is best: programs read it in another order at each boot, and peers request any piece.
const (
	leastKeep = 24 << 20
	MostKeep  = 256 << 20
	keepPart  = 16
)

// KeepOf returns how many bytes of a boot pack of size bytes a node keeps. memory is the machine's memory in bytes, 0
// if unknown. A positive asked replaces the part of the memory.
func KeepOf(size, memory, asked int64) int64 {
	if asked > 0 {
		return min(asked, size)
	}
	return min(max(memory/keepPart, leastKeep), MostKeep, size)
}
