package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"pando/internal/fleet"
)

// JournalQuery selects lines of a node's journal. The zero value selects the newest lines of its latest boot.
type JournalQuery struct {
	Boot     string    // a boot id, or a number: -1 is the boot before the latest, and so on; "": the latest
	Unit     string    // a unit, or a pattern such as nfs-*
	Grep     string    // regular expression (PCRE) for the text; case is ignored if it has no capitals
	Priority string    // this priority and more urgent ones: "err", "4"
	Since    time.Time // this time or later
	Until    time.Time // this time or earlier
	Last     int       // number of newest lines; 0: the server's default
}

func (q JournalQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"boot": q.Boot, "unit": q.Unit, "grep": q.Grep, "priority": q.Priority} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Last > 0 {
		v.Set("last", strconv.Itoa(q.Last))
	}
	return v
}

// Journal has lines from the journal of one boot of a node.
type Journal struct {
	Node    string        `json:"node"`
	Boot    fleet.BootID  `json:"boot"`
	Lines   []JournalLine `json:"lines"`             // the oldest first
	Units   []string      `json:"units,omitempty"`   // units with lines in this boot
	Boots   []JournalBoot `json:"boots,omitempty"`   // boots of the node with a journal, newest first
	Missing string        `json:"missing,omitempty"` // why there are no lines, and what to do
}

// JournalLine is one entry of a journal. Its text may contain line breaks.
type JournalLine struct {
	Time     time.Time `json:"time"` // by the node's clock
	Unit     string    `json:"unit,omitempty"`
	Name     string    `json:"name,omitempty"` // of the program, as it names itself
	PID      int       `json:"pid,omitempty"`
	Priority int       `json:"priority"` // 0 emergency to 7 debug
	Text     string    `json:"text"`
}

// String returns the line in the format for people.
func (l JournalLine) String() string {
	name := l.Name
	if l.PID > 0 {
		name += "[" + strconv.Itoa(l.PID) + "]"
	}
	return name + ": " + l.Text
}

// JournalBoot is a boot that has a journal.
type JournalBoot struct {
	Boot   fleet.BootID `json:"boot"`
	Bytes  int64        `json:"bytes"`  // bytes on the server's disk
	Newest time.Time    `json:"newest"` // when its last line arrived, by the server's clock
}

// NodeLogs returns lines from the journal that a node sent to the server.
func (c *Client) NodeLogs(ctx context.Context, node string, q JournalQuery) (Journal, error) {
	return get[Journal](ctx, c, "/v1/nodes/"+url.PathEscape(node)+"/logs", q.values())
}

// FollowLogs yields lines of the journal of a node's boot, first the recorded ones and then new ones, until ctx ends or
// the server goes away (the last pair has the error).
func (c *Client) FollowLogs(ctx context.Context, node string, q JournalQuery) iter.Seq2[JournalLine, error] {
	return func(yield func(JournalLine, error) bool) {
		res, err := c.send(ctx, "GET", "/v1/nodes/"+url.PathEscape(node)+"/logs/stream", q.values(), nil)
		if err != nil {
			yield(JournalLine{}, err)
			return
		}
		defer res.Body.Close()
		if err := readLines(res.Body, yield); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			yield(JournalLine{}, c.lost(err))
		}
	}
}

// readLines reads a stream of server-sent events with journal lines. It returns nil when yield stops, and an error
// otherwise.
func readLines(r io.Reader, yield func(JournalLine, error) bool) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxEvent)
	for s.Scan() {
		data, ok := strings.CutPrefix(s.Text(), "data:")
		if !ok {
			continue
		}
		var l JournalLine
		if err := json.Unmarshal([]byte(data), &l); err != nil {
			return fmt.Errorf("decode line: %w", err)
		}
		if !yield(l, nil) {
			return nil
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
