package swarm

// Bounds of what a node does for others at a time.
const (
	MaxUploads  = 5  // objects that it sends
	MaxWatchers = 48 // nodes that it tells what it has
)

// Uploads admits uploads of a node: few at a time, because one that is sent fast can be passed on early. What is
// refused is asked of somebody else. Reads of the node itself do not make it fewer: in a storm a read of each node
// waits most of the time, and a link carries both ways at once.
type Uploads struct {
	Limit  int // at a time; 0: MaxUploads
	active int
}

// Start admits an upload, which ends with Done, or refuses it.
func (u *Uploads) Start() bool {
	limit := u.Limit
	if limit == 0 {
		limit = MaxUploads
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

// Places are what a node has for uploads. What a read of another boot waits for does not wait for pieces.
type UploadSlots struct {
	Pieces Uploads
	Small  Uploads // of what boots start with, and other small objects
	Demand Uploads // of loose objects that are larger
}

// For are the places for an object of so many bytes. start: boots start with it.
func (p *UploadSlots) For(start, piece bool, size int64) *Uploads {
	switch {
	case start || size <= smallObject:
		return &p.Small
	case piece:
		return &p.Pieces
	}
	return &p.Demand
}
