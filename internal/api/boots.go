package api

import (
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// Boot is the summary of one attempt to boot.
type Boot struct {
	ID      fleet.BootID `json:"id"`
	Node    string       `json:"node,omitempty"` // "": nobody adopted it
	MAC     fleet.MAC    `json:"mac,omitzero"`
	Started time.Time    `json:"started"`
	Updated time.Time    `json:"updated"` // its last event
	// booting, failed (also: it hangs, or ended too early), booted, degraded (booted, and units failed), silent
	// (booted, and not heard of for four minutes), down
	State   trace.State      `json:"state"`
	Stage   trace.Stage      `json:"stage"`             // the furthest stage it reached
	Elapsed time.Duration    `json:"elapsed"`           // start to booted; until its last event otherwise
	Failure string           `json:"failure,omitempty"` // what failed last, while it is not fixed
	Hint    string           `json:"hint,omitempty"`
	Version fleet.Digest     `json:"version,omitempty"`
	Bytes   map[string]int64 `json:"bytes,omitempty"` // by source
	Fault   *Fault           `json:"fault,omitempty"` // what is wrong with it; nil: nothing, or it was not asked for
}

// Fault is a fault of a boot, and what to do about it.
type Fault struct {
	Kind  trace.Fault `json:"kind"`
	Stage trace.Stage `json:"stage"`
	Since time.Time   `json:"since"` // when the boot went on last, or when it failed
	Text  string      `json:"text"`  // what happened
	Do    string      `json:"do"`    // what to do
}

// BootList answers GET /v1/boots.
type BootList struct {
	Boots []Boot `json:"boots"` // newest first
}

// BootDetail answers GET /v1/boots/{id} and GET /v1/nodes/{name}/boot.
type BootDetail struct {
	Boot
	Steps   []Step        `json:"steps"`
	Gaps    []Gap         `json:"gaps,omitempty"` // longer times between them
	Events  []trace.Event `json:"events"`         // all of them, in order
	Systemd *Systemd      `json:"systemd,omitempty"`
	// SystemdStart is where on this timeline systemd's clock has its zero: the start of the kernel.
	SystemdStart time.Duration `json:"systemd_start,omitempty"`
	// Console has the messages of the node's kernel that the server got: from a failed stage, and by netconsole. The
	// newest are kept.
	Console string `json:"console,omitempty"`
}

// Step is one stage on the timeline.
type Step struct {
	Stage    trace.Stage      `json:"stage"`
	Start    time.Duration    `json:"start"`          // since the boot started
	Duration time.Duration    `json:"duration"`       // 0: no end was seen, or it is a moment
	Open     bool             `json:"open,omitempty"` // began and has not ended
	Attempt  int              `json:"attempt,omitempty"`
	Failure  string           `json:"failure,omitempty"`
	Hint     string           `json:"hint,omitempty"`
	Bytes    map[string]int64 `json:"bytes,omitempty"`
	Message  string           `json:"message,omitempty"`
}

// Gap is a time in which no stage was under way, and what is known of it.
type Gap struct {
	Start  time.Duration `json:"start"`
	Took   time.Duration `json:"took"`
	Before trace.Stage   `json:"before"` // the stage that came next
	Text   string        `json:"text"`
}

// EventList answers GET /v1/events.
type EventList struct {
	Events []trace.Event `json:"events"`
	Last   int64         `json:"last"` // highest sequence number there is: where a stream continues
}
