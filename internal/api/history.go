package api

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// PastBoot is one boot in the history. The history is kept for longer than timelines.
type PastBoot struct {
	ID       fleet.BootID                  `json:"id"`
	Node     string                        `json:"node"`
	Group    string                        `json:"group,omitempty"` // group of the node at that time
	Class    string                        `json:"class,omitempty"` // of its hardware: vendor and product
	Firmware string                        `json:"firmware,omitempty"`
	Image    fleet.Ref                     `json:"image,omitempty"`
	Version  fleet.Digest                  `json:"version,omitempty"`
	Started  time.Time                     `json:"started"`
	State    trace.State                   `json:"state"` // "booting": no later report came
	Stage    trace.Stage                   `json:"stage,omitempty"`
	Failure  string                        `json:"failure,omitempty"`
	Elapsed  time.Duration                 `json:"elapsed"`
	Ends     map[trace.Stage]time.Duration `json:"ends,omitempty"` // end of each stage, since the boot started
	Bytes    map[string]int64              `json:"bytes,omitempty"`
	Refused  int                           `json:"refused,omitempty"` // times that a node did not deliver kernel or initramfs
}

// History answers GET /v1/history.
type History struct {
	Boots []PastBoot `json:"boots"` // newest first
}

// BootFigures answers GET /v1/history/figures: how long boots took.
type BootFigures struct {
	By string    `json:"by"` // "group", "version", "class", "firmware", "node"
	Of []Figures `json:"of"`
}

// Figures tell how long boots took to their default target.
type Figures struct {
	Name     string        `json:"name,omitempty"`
	Boots    int           `json:"boots"` // boots that reached booted
	Failures int           `json:"failures,omitempty"`
	P50      time.Duration `json:"p50"`
	P95      time.Duration `json:"p95"`
	Max      time.Duration `json:"max"`
}

// BootComparison answers GET /v1/history/compare: how the boots of two versions differ.
type BootComparison struct {
	Before  ComparedBoots `json:"before"`
	After   ComparedBoots `json:"after"`
	Changes []BootChange  `json:"changes"`           // the whole boot first, then its stages
	Culprit trace.Stage   `json:"culprit,omitempty"` // the stage with the largest part of the change
}

// ComparedBoots are the boots of one side of a comparison.
type ComparedBoots struct {
	Ref      fleet.Ref    `json:"ref"`
	Version  fleet.Digest `json:"version"`
	Boots    int          `json:"boots"`
	Failures int          `json:"failures,omitempty"`
}

// BootChange is the difference of one stage, or of the whole boot.
type BootChange struct {
	Stage  trace.Stage   `json:"stage,omitempty"` // "": the whole boot
	Before Figures       `json:"before"`
	After  Figures       `json:"after"`
	Shift  time.Duration `json:"shift"` // median of all differences
	P      float64       `json:"p"`     // of the two-sided rank-sum test of Mann and Whitney
	Real   bool          `json:"real"`  // the difference is statistically significant, and not tiny
}

// HistoryQuery selects past boots. The zero value selects the newest thousand.
type HistoryQuery struct {
	Select, Group, Class string
	Version              fleet.Ref
	Since, Until         time.Time
	Limit                int
}

func (h HistoryQuery) values() url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("select", h.Select)
	set("group", h.Group)
	set("class", h.Class)
	set("version", string(h.Version))
	if !h.Since.IsZero() {
		set("since", h.Since.UTC().Format(time.RFC3339Nano))
	}
	if !h.Until.IsZero() {
		set("until", h.Until.UTC().Format(time.RFC3339Nano))
	}
	if h.Limit > 0 {
		set("limit", strconv.Itoa(h.Limit))
	}
	return q
}

// History lists past boots, newest first.
func (c *Client) History(ctx context.Context, h HistoryQuery) ([]PastBoot, error) {
	l, err := get[History](ctx, c, "/v1/history", h.values())
	return l.Boots, err
}

// HistoryFigures reports how long boots took, by group, version, class, firmware or node.
func (c *Client) HistoryFigures(ctx context.Context, by string, h HistoryQuery) (BootFigures, error) {
	q := h.values()
	q.Set("by", by)
	return get[BootFigures](ctx, c, "/v1/history/figures", q)
}

// CompareHistory reports how the boots of two versions differ. An empty class means all hardware.
func (c *Client) CompareHistory(ctx context.Context, before, after fleet.Ref, class string) (BootComparison, error) {
	q := url.Values{"before": {string(before)}, "after": {string(after)}}
	if class != "" {
		q.Set("class", class)
	}
	return get[BootComparison](ctx, c, "/v1/history/compare", q)
}
