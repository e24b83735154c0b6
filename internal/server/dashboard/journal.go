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
	// Follow calls fn for the lines of a node's latest boot that a query wants, and for those that come, until fn
	// or ctx ends it.
	Follow(ctx context.Context, node string, q api.JournalQuery, fn func(api.JournalLine) error) error
}

// Bounds of a journal's end on a page.
const (
	journalTail  = 50
	journalBatch = 200 // lines that are sent at once
	journalEvery = 300 * time.Millisecond
)

// journalView is the end of a journal on a node's page.
type journalView struct {
	Unit, Grep string // what is looked for
	Units      []string
	Lines      []string
	Why        string // why there are none
	Hint       string
	Kept       bool // there is a journal, whatever is looked for
}

// journalOf reads the end of the journal of a node's latest boot, and what the stream of the page has to follow.
func (d *Dashboard) journalOf(r *http.Request, node, live string) (v journalView, stream string) {
	q := r.URL.Query()
	v.Unit, v.Grep = q.Get("unit"), q.Get("grep")
	stream = live + "&" + url.Values{"journal": {"1"}, "unit": {v.Unit}, "grep": {v.Grep}}.Encode()
	if r.Header.Get("X-Part") != "" { // the parts that are asked for again have no journal in them
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

// journalText is a line as the page has it.
func journalText(l api.JournalLine) string {
	return l.Time.Local().Format(time.TimeOnly) + "  " + output.OneLine(l.String())
}

// journalLines are lines that a browser is sent. The first ones stand in the place of what it has.
type journalLines struct {
	Reset bool     `json:"reset,omitempty"`
	Lines []string `json:"lines"`
}

// liveJournal sends the end of a node's journal, and then the lines that come, some at a time.
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
			d.Log.Debug("journal is followed no more", "node", q.Get("node"), "err", err)
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
