package api

import (
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// Boot is the summary of one attempt to boot.
type Boot struct {
	ID      fleet.BootID `json:"id"`
	Node    string       `json:"node,omitempty"` // "": an unknown machine
	MAC     fleet.MAC    `json:"mac,omitzero"`
	Started time.Time    `json:"started"`
	Updated time.Time    `json:"updated"` // its last event
	// booting, failed (also: it hangs, or ended too early), booted, degraded (booted, but units failed), silent
	// (booted, but no report for four minutes), down
	State   trace.State      `json:"state"`
	Stage   trace.Stage      `json:"stage"`             // the furthest stage it reached
	Elapsed time.Duration    `json:"elapsed"`           // start to booted; before that, start to the last event
	Failure string           `json:"failure,omitempty"` // the last failure that is not resolved
	Hint    string           `json:"hint,omitempty"`
	Version fleet.Digest     `json:"version,omitempty"`
	Bytes   map[string]int64 `json:"bytes,omitempty"` // by source
	Fault   *Fault           `json:"fault,omitempty"` // nil: none, or the request did not ask for it
}

// Fault is a fault of a boot, and what to do about it.
type Fault struct {
	Kind  trace.Fault `json:"kind"`
	Stage trace.Stage `json:"stage"`
	Since time.Time   `json:"since"` // when the boot last made progress, or when it failed
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
	Gaps    []Gap         `json:"gaps,omitempty"` // longer times between the steps
	Events  []trace.Event `json:"events"`         // all of them, in order
	Systemd *Systemd      `json:"systemd,omitempty"`
	// SystemdStart is the start of the kernel on this timeline; systemd's times count from it.
	SystemdStart time.Duration `json:"systemd_start,omitempty"`
	// Console has kernel messages that reached the server: from a failed stage, and by netconsole. Only the newest are
	// kept.
	Console string `json:"console,omitempty"`
}

// Step is one stage on the timeline.
type Step struct {
	Stage    trace.Stage      `json:"stage"`
	Start    time.Duration    `json:"start"`          // since the boot started
	Duration time.Duration    `json:"duration"`       // 0: no end was seen, or the step has no duration
	Open     bool             `json:"open,omitempty"` // the step began and has not ended
	Attempt  int              `json:"attempt,omitempty"`
	Failure  string           `json:"failure,omitempty"`
	Hint     string           `json:"hint,omitempty"`
	Bytes    map[string]int64 `json:"bytes,omitempty"`
	Message  string           `json:"message,omitempty"`
}

// Gap is a time in which no stage was active, and what is known about it.
type Gap struct {
	Start  time.Duration `json:"start"`
	Took   time.Duration `json:"took"`
	Before trace.Stage   `json:"before"` // the stage that came next
	Text   string        `json:"text"`
}

// EventList answers GET /v1/events.
type EventList struct {
	Events []trace.Event `json:"events"`
	Last   int64         `json:"last"` // highest sequence number of all events: where a stream continues
}
