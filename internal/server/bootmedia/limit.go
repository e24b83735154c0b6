package bootmedia

import (
	"net/http"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/media"
)

// Limit counts the media that are being sent. Each is a kernel and initramfs in memory, twice, and after a boot
// storm all nodes ask within a minute.
type Limit struct{ now atomic.Int32 }

// Bounds of what is sent.
const (
	MostSent    = 2               // media at a time
	mediumTakes = 5 * time.Minute // for one, so that a disk that hangs does not keep others waiting
	RetryLater  = time.Minute     // least time until a node that was refused asks again
)

// Begin takes a place, or returns the error that tells a node to ask again later.
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
	_ = media.Send(w, writes) // a list that breaks off is noticed by who reads it
}
