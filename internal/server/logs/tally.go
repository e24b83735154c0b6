package logs

import (
	"errors"
	"io"
	"maps"

	"pando/internal/api"
	"pando/internal/journal"
)

// What becomes of an upload of a journal, in metrics and in the status. All but the first is refused, or was not
// whole, and is sent again.
const (
	uploadTaken     = "taken"
	uploadCut       = "cut_off"   // the node went away while it sent
	uploadBusy      = "busy"      // another one of the same boot is under way
	uploadFull      = "disk_full" // there was no room
	uploadMalformed = "malformed" // it is no journal
	uploadUnknown   = "stranger"  // no certificate of a node's latest boot
	uploadFailed    = "failed"    // all else: the server's log says what
)

// uploadOutcome is the word for what became of an upload.
func uploadOutcome(err error) string {
	var format *journal.FormatError
	switch {
	case err == nil:
		return uploadTaken
	case errors.As(err, &format):
		return uploadMalformed
	case errors.Is(err, journal.ErrBusy):
		return uploadBusy
	case errors.Is(err, journal.ErrFull):
		return uploadFull
	case api.IsCode(err, api.Unauthorized):
		return uploadUnknown
	case errors.Is(err, io.ErrUnexpectedEOF):
		return uploadCut
	}
	return uploadFailed
}

// noUploads are all outcomes, each of which was never.
func noUploads() map[string]int64 {
	out := map[string]int64{}
	for _, o := range []string{uploadTaken, uploadCut, uploadBusy, uploadFull, uploadMalformed, uploadUnknown,
		uploadFailed} {
		out[o] = 0
	}
	return out
}

// ended counts an upload by what became of it.
func (j *Journals) ended(outcome string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.uploads[outcome]++
}

// outcomes are how many uploads ended how since the server started.
func (j *Journals) outcomes() map[string]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.uploads)
}

// Status reports whether journals are kept, and what has come.
func (j *Journals) Status() api.Logs {
	if !j.Kept() {
		if j.missing {
			return api.Logs{State: api.LogsMissing}
		}
		return api.Logs{State: api.LogsOff}
	}
	t := j.dir.Tally()
	return api.Logs{
		State:   api.LogsOn,
		Held:    t.Held,
		Bound:   t.Bound,
		Entries: t.Entries,
		Bytes:   t.Bytes,
		Uploads: j.outcomes(),
		Last:    t.Last,
		Full:    t.Full,
	}
}
