package blockd

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/store"
)

// sourceWatch is the block daemon's store.Observer. It counts answers, and turns failures into few enough incidents
// to read.
type sourceWatch struct {
	ledger ledger
	now    func() time.Time

	mu      sync.Mutex
	current string               // the source of the last answer
	failing map[string]int       // consecutive failed attempts by source
	told    map[string]time.Time // when each incident was last reported, by kind, source and object

	trackerLost bool // a TrackerLost was reported

	gone []string // peers that vanished and are not reported yet

	fed map[string]int64 // bytes by sender: a peer's address, or the base URL of a server or bucket
}

// A source is down after downAfter consecutive failures. The same incident is not reported again within tellAgain.
const (
	downAfter  = 2
	tellAgain  = time.Minute
	toldAtMost = 256
)

// fedAtMost bounds the senders that are counted separately. Others are counted together under the name "".
const fedAtMost = 64

func newSourceWatch(l ledger) *sourceWatch {
	return &sourceWatch{
		ledger:  l,
		now:     time.Now,
		failing: map[string]int{},
		told:    map[string]time.Time{},
		fed:     map[string]int64{},
	}
}

// Received counts an object that a server or bucket sent.
func (w *sourceWatch) Received(source string, bytes int) {
	w.ledger.add(bytesServer, int64(bytes))
	w.ledger.add(countFetches, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = source
	w.took(source, bytes)
	if w.failing[source] >= downAfter {
		w.ledger.report(blockapi.Incident{Kind: blockapi.ServerUp, Source: source, Message: "the server answers again"})
	}
	delete(w.failing, source)
}

// took counts bytes by sender. The caller holds mu.
func (w *sourceWatch) took(from string, bytes int) {
	if _, known := w.fed[from]; !known && len(w.fed) >= fedAtMost {
		from = ""
	}
	w.fed[from] += int64(bytes)
}

// senders returns the bytes by sender that this block daemon received. The count is lost when the daemon dies.
func (w *sourceWatch) senders() map[string]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.fed)
}

// Failed counts a failure.
func (w *sourceWatch) Failed(source string, id chunk.ID, err error) {
	i := blockapi.Incident{Source: source, Message: err.Error()}
	var wrong *chunk.WrongBytesError
	switch {
	case errors.As(err, &wrong):
		w.ledger.add(countRejected, 1)
		i.Kind, i.Object = blockapi.WrongBytes, id.Name()
		i.Message = fmt.Sprintf("%d bytes that are not the object were dropped", wrong.Size)
	case errors.Is(err, store.ErrMissing):
		w.ledger.add(countFailures, 1)
		i.Kind, i.Object = blockapi.Missing, id.Name()
	default:
		w.ledger.add(countFailures, 1)
		i.Kind = blockapi.ServerDown
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.Kind == blockapi.ServerDown {
		if w.failing[source]++; w.failing[source] != downAfter {
			return
		}
	}
	w.tell(i)
}

// tell reports an incident unless it was reported within tellAgain. The caller holds mu.
func (w *sourceWatch) tell(i blockapi.Incident) {
	key := string(i.Kind) + " " + i.Source + " " + i.Object
	if last, ok := w.told[key]; ok && w.now().Sub(last) < tellAgain {
		return
	}
	if len(w.told) >= toldAtMost {
		clear(w.told) // bounds the memory; some may be reported twice
	}
	w.told[key] = w.now()
	w.ledger.report(i)
}

// broken reports an image that cannot be read.
func (w *sourceWatch) broken(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(blockapi.Incident{Kind: blockapi.BrokenImage, Message: err.Error()})
}

// lostPiece reports that a piece or the whole boot pack cannot be used. One incident stands for all.
func (w *sourceWatch) lostPiece(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(blockapi.Incident{Kind: blockapi.LostPiece, Message: "its content is read as chunks: " + err.Error()})
}

// server returns the source that answered last.
func (w *sourceWatch) server() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}
