package swarm

// Limits of a node's service to others.
const (
	MaxUploads  = 5  // concurrent uploads of each kind
	MaxWatchers = 48 // nodes that follow its list of pieces
)

// Uploads limits the concurrent uploads of a node. With few uploads each is fast, and its piece can be passed on early.
// A refused client asks another peer. Reads of the node itself do not lower the limit: in a storm a read waits most of
// the time.
type Uploads struct{ active int }

// Start admits an upload, which ends with Done, or refuses it.
func (u *Uploads) Start() bool {
	if u.active >= MaxUploads {
		return false
	}
	u.active++
	return true
}

// Done ends an upload.
func (u *Uploads) Done() { u.active-- }

// Active returns the number of uploads.
func (u *Uploads) Active() int { return u.active }

// UploadSlots are the upload limits of a node, by kind, so that demand objects do not wait behind pieces.
type UploadSlots struct {
	Pieces Uploads
	Small  Uploads // bootstrap files and other small objects
	Demand Uploads // larger demand objects
}

// For returns the limit for an object of size bytes. start: the object is a bootstrap file.
func (p *UploadSlots) For(start, piece bool, size int64) *Uploads {
	switch {
	case start || size <= smallObject:
		return &p.Small
	case piece:
		return &p.Pieces
	}
	return &p.Demand
}
