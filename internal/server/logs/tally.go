package logs

import (
	"errors"
	"io"
	"maps"

	"pando/internal/api"
	"pando/internal/journal"
)

// Outcomes of a journal upload, in metrics and in the status. After all but the first the node sends the upload again.
const (
	uploadTaken     = "taken"
	uploadCut       = "cut_off"   // the connection broke off
	uploadBusy      = "busy"      // another upload of the same boot is running
	uploadFull      = "disk_full" // the disk was full
	uploadMalformed = "malformed" // the body is no journal
	uploadUnknown   = "stranger"  // the sender has no certificate of a node's latest boot
	uploadFailed    = "failed"    // any other error; the server's log says which
)

// uploadOutcome returns the outcome for an error.
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

// noUploads returns all outcomes with a count of 0.
func noUploads() map[string]int64 {
	out := map[string]int64{}
	for _, o := range []string{uploadTaken, uploadCut, uploadBusy, uploadFull, uploadMalformed, uploadUnknown,
		uploadFailed} {
		out[o] = 0
	}
	return out
}

// ended counts an upload by its outcome.
func (j *Journals) ended(outcome string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.uploads[outcome]++
}

// outcomes returns the number of uploads by outcome since the server started.
func (j *Journals) outcomes() map[string]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.uploads)
}

// Status reports whether journals are kept, and how much was received.
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
