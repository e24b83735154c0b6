package server

import (
	"net/http"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/media"
)

// mediaSent counts the answers that have K in them and are under way: each is K in memory, twice, and all nodes of
// a storm ask a minute after they have booted.
type mediaSent struct{ now atomic.Int32 }

const (
	mostMediaSent = 2
	mediumTakes   = 5 * time.Minute // a stick that takes nothing more must not keep a place for ever
	mediumLater   = time.Minute     // until a node that has to wait asks again, at least
)

func (m *mediaSent) begin() error {
	if m.now.Add(1) <= mostMediaSent {
		return nil
	}
	m.end()
	e := api.NewError(
		api.Unavailable,
		"boot media of other nodes are being written",
		"a node comes back by itself; repeat `pando node cache` in a minute",
	)
	e.RetryAfter = mediumLater
	return e
}

func (m *mediaSent) end() { m.now.Add(-1) }

// sendWrites sends a list of writes to a node, within a time.
func sendWrites(w http.ResponseWriter, writes []media.Write) {
	deadline := func(t time.Time) { _ = http.NewResponseController(w).SetWriteDeadline(t) }
	deadline(time.Now().Add(mediumTakes))
	defer deadline(time.Time{})
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = media.Send(w, writes) // a list that breaks off is noticed by who reads it
}
