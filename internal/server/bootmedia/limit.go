package bootmedia

import (
	"net/http"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/media"
)

// Limit counts the media that are being sent. Each takes a kernel and initramfs in memory, twice, and after a boot
// storm all nodes request within a minute.
type Limit struct{ now atomic.Int32 }

// Bounds of sending media.
const (
	MostSent    = 2               // media at a time
	mediumTakes = 5 * time.Minute // time for one medium, so that a hanging disk does not block others
	RetryLater  = time.Minute     // shortest time until a refused node requests again
)

// Begin takes a place, or returns the error that tells a node to request again later.
func (m *Limit) Begin() error {
	if m.now.Add(1) <= MostSent {
		return nil
	}
	m.End()
	e := api.NewError(
		api.Unavailable,
		"boot media of other nodes are being written",
		"a node comes back by itself; repeat `pando node cache` in a minute",
	)
	e.RetryAfter = RetryLater
	return e
}

// End gives the place back.
func (m *Limit) End() { m.now.Add(-1) }

// sendWrites sends a list of writes to a node, within a time.
func sendWrites(w http.ResponseWriter, writes []media.Write) {
	deadline := func(t time.Time) { _ = http.NewResponseController(w).SetWriteDeadline(t) }
	deadline(time.Now().Add(mediumTakes))
	defer deadline(time.Time{})
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = media.Send(w, writes) // the node notices a list that breaks off
}
