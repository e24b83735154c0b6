package blockapi

// How much of the boot pack a node keeps in memory, compressed, unless the group sets it: a sixteenth of the memory
// within these bounds. To keep all of it is best, because programs read it in a different order at each boot, and
// peers ask for any piece.
const (
	leastKeep = 24 << 20
	MostKeep  = 256 << 20
	keepPart  = 16
	SharePart = 4 // the part of its memory that no group can ask for more than: what is kept is locked in memory
)

// KeepOf is how many bytes of a pack of size bytes a node keeps. memory is the machine's, 0 if it is not known;
// share is the group's setting, 0 if there is none.
func KeepOf(size, memory, share int64) int64 {
	keep := min(max(memory/keepPart, leastKeep), MostKeep)
	if share > 0 {
		keep = share
		if memory > 0 {
			keep = min(share, max(memory/SharePart, leastKeep))
		}
	}
	return min(keep, size)
}
