package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/journal"
	"pando/internal/registry"
)

// What Config.Logs may be.
const (
	LogsOn   = "on"   // nodes send their journals here; it is an error when systemd-journal-remote is missing
	LogsAuto = "auto" // on where systemd-journal-remote is installed
	LogsOff  = "off"
)

// journalsDir is where the journals of nodes are, in the data directory.
const journalsDir = "journals"

// A node is not answered before this time is over since it began to send: it sends what came meanwhile at once
// then, and the server starts one program for it. Less when somebody looks on.
const (
	journalPause   = 5 * time.Second
	journalWatched = 300 * time.Millisecond
)

// journals are the journals that nodes send, and who looks at them.
type journals struct {
	*journal.Dir

	mu      sync.Mutex
	watched map[string]int   // nodes, by how many look
	uploads map[string]int64 // that ended, by outcome
}

// openJournals returns nil where journals are not taken.
func (s *Server) openJournals() (*journals, error) {
	switch s.cfg.Logs {
	case "", LogsOff:
		return nil, nil
	case LogsAuto:
		if _, err := journal.Find(); err != nil {
			s.log.Info("journals of nodes are not kept: "+err.Error(), "hint", "install it, or say --logs off")
			return nil, nil
		}
	case LogsOn:
	default:
		return nil, errors.New("logs: use on, off or auto")
	}
	d, err := journal.Open(
		journal.Options{
			Path:  filepath.Join(s.cfg.Dir, journalsDir),
			Total: s.cfg.LogsSize,
			Node:  s.cfg.LogsNodeSize,
			Log:   s.log,
		},
	)
	if err != nil {
		return nil, err
	}
	return &journals{Dir: d, watched: map[string]int{}, uploads: noUploads()}, nil
}

// takeJournal answers POST /v1/node/journal/upload, where systemd-journal-upload sends what a node's journal says.
// What is answered with 202 is on disk; all else is sent again.
func (s *Server) takeJournal(w http.ResponseWriter, r *http.Request) error {
	if s.journals == nil {
		return api.NewError(api.NotFound, "this server keeps no journals", "")
	}
	b, err := s.uploader(r)
	if err != nil {
		s.journals.ended(uploadOutcome(err))
		return err
	}
	begun, full := time.Now(), s.journals.Tally().Full
	err = s.journals.Take(r.Context(), b.Node, string(b.ID), &prompt{r.Body, http.NewResponseController(w)})
	s.journals.ended(uploadOutcome(err))
	if err != nil {
		return s.refuseJournal(w, r, b, err, full)
	}
	s.journals.pause(r.Context(), b.Node, begun)
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, "OK.\n") // the node is gone when this fails, and sends it again
	return nil
}

// promptTime is how long a node that sends may be silent. It sends without a pause and ends when it has no more, so
// one that is silent is gone, and what came from it is kept then.
const promptTime = 20 * time.Second

// prompt is a body that must keep coming.
type prompt struct {
	io.Reader
	c *http.ResponseController
}

// Read reads what comes in time.
func (p *prompt) Read(b []byte) (int, error) {
	_ = p.c.SetReadDeadline(time.Now().Add(promptTime)) // without one it is TCP that finds out
	n, err := p.Reader.Read(b)
	_ = p.c.SetReadDeadline(time.Time{})
	return n, err
}

// uploader is the boot that sends: the latest of a node, by the certificate that was made for it.
func (s *Server) uploader(r *http.Request) (b registry.Boot, err error) {
	refused := api.NewError(
		api.Unauthorized,
		"no certificate of a node's latest boot",
		"a newer boot of the node ends the older one's right to send",
	)
	id := s.keys.UploadBy(r.TLS)
	if id == "" {
		return b, refused
	}
	err = s.registry.View(r.Context(), func(tx *registry.Tx) error {
		b, err = tx.Boot(fleet.BootID(id))
		return err
	})
	if errors.Is(err, registry.ErrNotFound) || err == nil && b.Session.IsZero() {
		return b, refused
	}
	if err != nil {
		return b, err
	}
	n, _, err := s.planner.Member(r.Context(), b.MAC)
	b.Node = n.Name // by its name of today
	return b, err
}

// refuseJournal tells node and log why something was not taken. A disk that is full still is in the log already.
func (s *Server) refuseJournal(w http.ResponseWriter, r *http.Request, b registry.Boot, err error, still bool) error {
	var format *journal.FormatError
	switch {
	case errors.As(err, &format):
		s.log.Warn("journal not taken", "node", b.Node, "boot", b.ID, "err", err)
		return api.NewError(api.BadRequest, err.Error(), "")
	case errors.Is(err, journal.ErrBusy):
		return api.NewError(api.TooMany, err.Error(), "")
	case errors.Is(err, journal.ErrFull):
		if !still {
			s.log.Error(
				"journal not taken",
				"node",
				b.Node,
				"boot",
				b.ID,
				"err",
				err,
				"hint",
				"make room; nodes send again what was not taken",
			)
		}
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
		return nil
	}
	if r.Context().Err() == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.log.Error("journal not taken", "node", b.Node, "boot", b.ID, "err", err)
	}
	return err
}

// pause waits until a node may send the next lines.
func (j *journals) pause(ctx context.Context, node string, begun time.Time) {
	for ctx.Err() == nil {
		most := journalPause
		if j.isWatched(node) {
			most = journalWatched
		}
		left := most - time.Since(begun)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(left, journalWatched)):
		}
	}
}

// watch notes that somebody looks at a node's journal; done ends it.
func (j *journals) watch(node string) (done func()) {
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

func (j *journals) isWatched(node string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.watched[node] > 0
}
