package blockapi

// How many bytes of the boot pack are kept as they were sent, where the group does not say. All of it is best:
// programs that start side by side read it in another order each time, and peers want any of it. So a node gives it
// a sixteenth of its memory: a kiosk of 1 GB has 64 MB for it, a machine of 2 GB room for a desktop's pack, which
// has 96 MB. A server's has 9 to 24, which any machine can spare.
const (
	leastKeep = 24 << 20
	MostKeep  = 256 << 20
	keepPart  = 16
	SharePart = 4 // the part of its memory that no group can ask for more than: what is kept is locked in memory
)

// KeepOf is how many bytes of a pack of size bytes a node with so much memory keeps. share is what its group says,
// 0: nothing. An unknown memory is 0.
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
