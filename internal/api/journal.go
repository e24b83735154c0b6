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
	Boot     string    // a boot id; or a number: -1 is the boot before the latest, and so on; "": the latest
	Unit     string    // a unit, or a pattern such as nfs-*
	Grep     string    // regular expression (PCRE) that the text matches; without capitals in it, case does not count
	Priority string    // this and what is more urgent: "err", "4"
	Since    time.Time // then or later
	Until    time.Time // then or earlier
	Last     int       // the newest so many; 0: the server's default
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

// Journal is lines of the journal of one boot of a node.
type Journal struct {
	Node    string        `json:"node"`
	Boot    fleet.BootID  `json:"boot"`
	Lines   []JournalLine `json:"lines"`             // the oldest first
	Units   []string      `json:"units,omitempty"`   // that the boot has lines of
	Boots   []JournalBoot `json:"boots,omitempty"`   // of the node of which there are journals, the newest first
	Missing string        `json:"missing,omitempty"` // why there is nothing, and what to do
}

// JournalLine is one line of a journal. It may have line breaks in it.
type JournalLine struct {
	Time     time.Time `json:"time"` // by the node's clock
	Unit     string    `json:"unit,omitempty"`
	Name     string    `json:"name,omitempty"` // of the program, as it calls itself
	PID      int       `json:"pid,omitempty"`
	Priority int       `json:"priority"` // 0 emergency to 7 debug
	Text     string    `json:"text"`
}

// String is the line as people read it.
func (l JournalLine) String() string {
	name := l.Name
	if l.PID > 0 {
		name += "[" + strconv.Itoa(l.PID) + "]"
	}
	return name + ": " + l.Text
}

// JournalBoot is a boot of which there is a journal.
type JournalBoot struct {
	Boot   fleet.BootID `json:"boot"`
	Bytes  int64        `json:"bytes"`  // of the server's disk
	Newest time.Time    `json:"newest"` // when its last line came, by the server's clock
}

// NodeLogs reads the journal of a node as it was sent to the server.
func (c *Client) NodeLogs(ctx context.Context, node string, q JournalQuery) (Journal, error) {
	return get[Journal](ctx, c, "/v1/nodes/"+url.PathEscape(node)+"/logs", q.values())
}

// FollowLogs yields lines of the journal of a node's boot, and then new ones, until ctx ends or the server goes away
// (the last pair has the error).
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

// readLines reads server-sent events of lines. It returns nil when yield wants no more and an error otherwise.
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
