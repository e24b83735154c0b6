package peer

// Bounds of what a node does for others at a time.
const (
	MaxUploads  = 4  // objects that it sends
	MaxWatchers = 48 // nodes that it tells what it has
)

// Uploads admits uploads of a node: few at a time, because one that is sent fast can be passed on early, and fewer while
// a read of the node itself waits. What is refused is asked of somebody else.
type Uploads struct {
	Limit   int // at a time; 0: MaxUploads
	active  int
	reading int
}

// Start admits an upload, which ends with Done, or refuses it.
func (u *Uploads) Start() bool {
	limit := u.Limit
	if limit == 0 {
		limit = MaxUploads
	}
	if u.reading > 0 {
		limit = (limit + 1) / 2
	}
	if u.active >= limit {
		return false
	}
	u.active++
	return true
}

// Done ends an upload.
func (u *Uploads) Done() { u.active-- }

// Active is how many uploads run.
func (u *Uploads) Active() int { return u.active }

// Reading counts the node's own reads that wait for the network.
func (u *Uploads) Reading(change int) { u.reading += change }
