package logs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/journal"
	"pando/internal/registry"
)

// An upload is answered only after this time, so that a node sends many lines at once: the server starts a program for
// each upload. The pause is shorter while somebody follows the journal.
const (
	Pause        = 5 * time.Second
	pauseWatched = 300 * time.Millisecond
)

// Upload answers POST /v1/node/journal/upload, where systemd-journal-upload sends a node's journal. After the answer
// 202 the lines are on disk; after any other answer the node sends them again.
func (j *Journals) Upload(w http.ResponseWriter, r *http.Request) error {
	if !j.Kept() {
		return api.NewError(api.NotFound, "this server keeps no journals", "")
	}
	b, err := j.uploader(r)
	if err != nil {
		j.ended(uploadOutcome(err))
		return err
	}
	begun, full := time.Now(), j.dir.Tally().Full
	err = j.dir.Take(r.Context(), b.Node, string(b.ID), &prompt{r.Body, http.NewResponseController(w)})
	j.ended(uploadOutcome(err))
	if err != nil {
		return j.refuseJournal(w, r, b, err, full)
	}
	j.pause(r.Context(), b.Node, begun)
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, "OK.\n") // if this fails, the node is gone and will send the lines again
	return nil
}

// promptTime is how long a sending node may pause. Nodes send without pauses, so a silent one is gone; the lines
// received so far are kept.
const promptTime = 20 * time.Second

// prompt is a request body whose reads fail if no data arrives for promptTime.
type prompt struct {
	io.Reader
	c *http.ResponseController
}

// Read reads with a deadline.
func (p *prompt) Read(b []byte) (int, error) {
	_ = p.c.SetReadDeadline(time.Now().Add(promptTime)) // if no deadline can be set, TCP notices a node that is gone
	n, err := p.Reader.Read(b)
	_ = p.c.SetReadDeadline(time.Time{})
	return n, err
}

// uploader returns the boot that sends. It must be the latest boot of its node, and the sender must have the
// certificate that was made for it.
func (j *Journals) uploader(r *http.Request) (b registry.Boot, err error) {
	refused := api.NewError(
		api.Unauthorized,
		"no certificate of a node's latest boot",
		"a newer boot of the node ends the older one's right to send",
	)
	id := j.keys.UploadBy(r.TLS)
	if id == "" {
		return b, refused
	}
	err = j.registry.View(r.Context(), func(tx *registry.Tx) error {
		b, err = tx.Boot(fleet.BootID(id))
		return err
	})
	if errors.Is(err, registry.ErrNotFound) || err == nil && b.Session.IsZero() {
		return b, refused
	}
	if err != nil {
		return b, err
	}
	n, err := j.member(r.Context(), b.MAC)
	b.Node = n.Name // its current name
	return b, err
}

// refuseJournal answers an upload that failed, and logs the error. still says that the disk was full before; then it is
// not logged again.
func (j *Journals) refuseJournal(w http.ResponseWriter, r *http.Request, b registry.Boot, err error, still bool) error {
	var format *journal.FormatError
	switch {
	case errors.As(err, &format):
		j.log.Warn("journal upload refused", "node", b.Node, "boot", b.ID, "err", err)
		return api.NewError(api.BadRequest, err.Error(), "")
	case errors.Is(err, journal.ErrBusy):
		return api.NewError(api.TooMany, err.Error(), "")
	case errors.Is(err, journal.ErrFull):
		if !still {
			j.log.Error(
				"journal upload refused",
				"node",
				b.Node,
				"boot",
				b.ID,
				"err",
				err,
				"hint",
				"make room; nodes send refused lines again",
			)
		}
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
		return nil
	}
	if r.Context().Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		j.log.Error("journal upload refused", "node", b.Node, "boot", b.ID, "err", err)
	}
	return err
}

// pause waits until an upload may be answered.
func (j *Journals) pause(ctx context.Context, node string, begun time.Time) {
	for ctx.Err() == nil {
		most := Pause
		if j.isWatched(node) {
			most = pauseWatched
		}
		left := most - time.Since(begun)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(left, pauseWatched)):
		}
	}
}

// Watch records that somebody follows a node's journal, until done is called.
func (j *Journals) Watch(node string) (done func()) {
	add := func(n int) {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.watched[node] += n; j.watched[node] == 0 {
			delete(j.watched, node)
		}
	}
	add(1)
	return func() { add(-1) }
}

func (j *Journals) isWatched(node string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.watched[node] > 0
}
