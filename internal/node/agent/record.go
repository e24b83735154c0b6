package agent

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"pando/internal/rundir"
)

// record is what must not be reported twice, also by an agent that starts after this one.
type record struct {
	progress
	dir    string
	frozen func() bool // true: the file belongs to the next boot's agent and is not written any more
	log    io.Writer
	up     atomic.Bool // the node has booted
}

// progress is the content of the record's file. Only the agent's loop uses it.
type progress struct {
	Marks     int64 `json:"marks"`     // bytes of the marks file that were reported
	Incidents int64 `json:"incidents"` // sequence of the newest incident that was reported
	Leftover  bool  `json:"leftover"`  // init's last events were reported
	Booted    bool  `json:"booted"`

	BootedAt time.Duration `json:"booted_at"` // CLOCK_MONOTONIC
	Traced   bool          `json:"traced"`    // the read trace was sent, or refused
	Medium   bool          `json:"medium"`    // the boot medium is up to date, or there is none
	Until    bool          `json:"until"`     // the mark that ends the recording of reads was made
}

// readRecord reads the record of an earlier agent of this boot. Without one it returns an empty record.
func readRecord(dir string, frozen func() bool, log io.Writer) *record {
	r := &record{dir: dir, frozen: frozen, log: log}
	_ = rundir.ReadJSON(dir, rundir.ProgressName, &r.progress)
	r.up.Store(r.Booted)
	return r
}

// booted records that the node came up at a time of CLOCK_MONOTONIC.
func (r *record) booted(at time.Duration) {
	r.up.Store(true)
	r.Booted, r.BootedAt = true, at
}

// keep writes the file, when events are queued and not when they are sent. An event that is reported twice would
// spoil a timeline. An event that is lost because the agent died in that second does not.
func (r *record) keep() {
	if r.frozen() {
		return
	}
	if err := rundir.WriteJSON(r.dir, rundir.ProgressName, 0o600, r.progress); err != nil {
		fmt.Fprintln(r.log, err)
	}
}
