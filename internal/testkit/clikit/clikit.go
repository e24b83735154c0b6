package clikit

import (
	"bytes"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Start returns the time at which tests begin.
func Start() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Env returns an environment that prints into the buffer. Its clock is a minute after Start.
func Env() (*cmdenv.Env, *bytes.Buffer) {
	var b bytes.Buffer
	now := func() time.Time { return Start().Add(time.Minute) }
	return &cmdenv.Env{Out: &b, Err: &b, In: &bytes.Buffer{}, Now: now}, &b
}

// Systemd returns a node's report of its units.
func Systemd() *api.Systemd {
	return &api.Systemd{Userspace: 4 * time.Second, Finish: 9500 * time.Millisecond, State: "running",
		Units: []api.UnitTime{{Unit: "apt-daily.service", Start: 7 * time.Second, Active: 9 * time.Second},
			{Unit: "ssh.service", Start: 8 * time.Second, Active: 8700 * time.Millisecond, Chain: true},
			{Unit: "multi-user.target", Start: 9400 * time.Millisecond, Active: 9400 * time.Millisecond, Chain: true}}}
}

// Events returns the events of a boot that booted, or of one that did not find its manifest.
func Events(b registry.Boot, failed bool) []trace.Event {
	var out []trace.Event
	add := func(at time.Duration, s trace.Stage, k trace.Kind, e trace.Event) {
		e.Time, e.Boot, e.Node, e.MAC, e.Stage, e.Kind = b.Started.Add(at), b.ID, b.Node, b.MAC, s, k
		out = append(out, e)
	}
	add(0, trace.DHCP, trace.Begin, trace.Event{})
	add(2*time.Second, trace.DHCP, trace.End, trace.Event{})
	add(3*time.Second, trace.Kernel, trace.Begin, trace.Event{})
	add(4*time.Second, trace.Kernel, trace.End, trace.Event{Bytes: map[string]int64{trace.SourceK: 8_200_000}})
	add(7*time.Second, trace.Init, trace.Begin, trace.Event{Attrs: map[string]string{trace.AttrKernel: "2s"}})
	if failed {
		add(8*time.Second, trace.Manifest, trace.Begin, trace.Event{})
		add(9*time.Second, trace.Manifest, trace.Fail,
			trace.Event{Attempt: 2, Message: "fetch manifest: 404", Hint: "was the version deleted?"})
		return out
	}
	add(7500*time.Millisecond, trace.Init, trace.End, trace.Event{})
	add(9*time.Second, trace.Root, trace.Begin, trace.Event{})
	add(9300*time.Millisecond, trace.Root, trace.End, trace.Event{})
	add(15*time.Second, trace.Booted, trace.End, trace.Event{Bytes: map[string]int64{"server": 33_100_000}})
	return out
}
