package blockapi

// How much of the boot pack a node keeps in memory, compressed: a sixteenth of the memory within these bounds. To
// keep all of it is best, because programs read it in a different order at each boot, and peers ask for any piece.
const (
	leastKeep = 24 << 20
	MostKeep  = 256 << 20
	keepPart  = 16
)

// KeepOf is how many bytes of a pack of size bytes a node keeps. memory is the machine's, 0 if it is not known;
// asked decides, if it is not 0.
func KeepOf(size, memory, asked int64) int64 {
	if asked > 0 {
		return min(asked, size)
	}
	return min(max(memory/keepPart, leastKeep), MostKeep, size)
}
