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

// sourceWatch is the store.Observer of the block daemon: it counts, and turns failures into incidents that
// are few enough to read.
type sourceWatch struct {
	ledger ledger
	now    func() time.Time

	mu      sync.Mutex
	current string               // the source that answered last
	failing map[string]int       // attempts in a row that failed, by source
	told    map[string]time.Time // incidents told of late, by kind, source and object

	trackerLost bool // it was told once that there is none

	gone []string // peers that vanished, and of which nothing was told yet

	fed map[string]int64 // bytes by who sent them: a peer's address, a server's or bucket's base URL
}

// How many failures in a row make a source down, and for how long the same incident is not told again.
const (
	downAfter  = 2
	tellAgain  = time.Minute
	toldAtMost = 256
)

// fedAtMost is how many senders are counted separately. A node knows thirty peers at a time. Further ones are counted
// together under the name "".
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

// Received counts an object.
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

// took counts what somebody sent. Callers hold mu.
func (w *sourceWatch) took(from string, bytes int) {
	if _, known := w.fed[from]; !known && len(w.fed) >= fedAtMost {
		from = ""
	}
	w.fed[from] += int64(bytes)
}

// senders are who sent how many bytes to this block daemon. One that was killed took its account with it.
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

// tell reports an incident unless it was told within the last minute. Callers hold mu.
func (w *sourceWatch) tell(i blockapi.Incident) {
	key := string(i.Kind) + " " + i.Source + " " + i.Object
	if last, ok := w.told[key]; ok && w.now().Sub(last) < tellAgain {
		return
	}
	if len(w.told) >= toldAtMost {
		clear(w.told) // rather tell twice than grow
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

// lostPiece reports a piece of the boot pack, or all of it, that cannot be used. One tells of all.
func (w *sourceWatch) lostPiece(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(blockapi.Incident{Kind: blockapi.LostPiece, Message: "the blocks come from chunks: " + err.Error()})
}

// server is the source that answered last.
func (w *sourceWatch) server() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}
