package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/output"
)

// Journals follows the journals of nodes.
type Journals interface {
	// Follow calls fn for the matching lines of a node's latest boot and for each new one, until fn returns an error or
	// ctx ends.
	Follow(ctx context.Context, node string, q api.JournalQuery, fn func(api.JournalLine) error) error
}

// Limits of the part of a journal on a page.
const (
	journalTail  = 50
	journalBatch = 200 // lines that are sent together
	journalEvery = 300 * time.Millisecond
)

// journalView is the end of a journal on a node's page.
type journalView struct {
	Unit, Grep string // filters
	Units      []string
	Lines      []string
	Why        string // why there are no lines
	Hint       string
	Kept       bool // there is a journal, even if no line matches
}

// journalOf returns the end of the journal of a node's latest boot, and the query of the page's event stream.
func (d *Dashboard) journalOf(r *http.Request, node, live string) (v journalView, stream string) {
	q := r.URL.Query()
	v.Unit, v.Grep = q.Get("unit"), q.Get("grep")
	stream = live + "&" + url.Values{"journal": {"1"}, "unit": {v.Unit}, "grep": {v.Grep}}.Encode()
	if r.Header.Get("X-Part") != "" { // reloaded parts of a page contain no journal
		return v, stream
	}
	j, err := d.API.NodeLogs(r.Context(), node, api.JournalQuery{Unit: v.Unit, Grep: v.Grep, Last: journalTail})
	if err != nil {
		t := troubleOf(err)
		v.Why, v.Hint, v.Kept = t.Message, t.Hint, true
		return v, live
	}
	v.Units, v.Why, v.Kept = j.Units, j.Missing, j.Missing == ""
	for _, l := range j.Lines {
		v.Lines = append(v.Lines, journalText(l))
	}
	return v, stream
}

// journalText returns a line as the page shows it.
func journalText(l api.JournalLine) string {
	return l.Time.Local().Format(time.TimeOnly) + "  " + output.OneLine(l.String())
}

// journalLines is a message with lines for a browser. With Reset they replace the lines that it shows.
type journalLines struct {
	Reset bool     `json:"reset,omitempty"`
	Lines []string `json:"lines"`
}

// liveJournal sends the end of a node's journal, and then new lines in batches.
func (d *Dashboard) liveJournal(ctx context.Context, out *stream, q url.Values) {
	ctx, stop := context.WithCancel(ctx)
	lines := make(chan string, journalBatch)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		defer close(lines)
		query := api.JournalQuery{Unit: q.Get("unit"), Grep: q.Get("grep"), Last: journalTail}
		err := d.Journals.Follow(ctx, q.Get("node"), query, func(l api.JournalLine) error {
			select {
			case lines <- journalText(l):
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		if err != nil && ctx.Err() == nil {
			d.Log.Debug("journal cannot be followed any longer", "node", q.Get("node"), "err", err)
		}
	})
	batch := journalLines{Reset: true}
	for line := range lines {
		batch.Lines = append(batch.Lines, line)
		for wait := time.After(journalEvery); wait != nil && len(batch.Lines) < journalBatch; {
			select {
			case more, ok := <-lines:
				if !ok {
					return
				}
				batch.Lines = append(batch.Lines, more)
			case <-wait:
				wait = nil
			}
		}
		body, err := json.Marshal(batch)
		if err != nil || !out.send("journal", "", string(body)) {
			return
		}
		batch = journalLines{}
	}
}
