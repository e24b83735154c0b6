package boot

import (
	"time"

	"pando/internal/api"
	"pando/internal/registry"
	"pando/internal/trace"
)

func seedSystemd() *api.Systemd {
	return &api.Systemd{Userspace: 4 * time.Second, Finish: 9500 * time.Millisecond, State: "running",
		Units: []api.UnitTime{{Unit: "apt-daily.service", Start: 7 * time.Second, Active: 9 * time.Second},
			{Unit: "ssh.service", Start: 8 * time.Second, Active: 8700 * time.Millisecond, Chain: true},
			{Unit: "multi-user.target", Start: 9400 * time.Millisecond, Active: 9400 * time.Millisecond, Chain: true}}}
}

// seedEvents are a boot that came up and one that did not find its manifest.
func seedEvents(boots []registry.Boot) []trace.Event {
	var out []trace.Event
	add := func(b registry.Boot, at time.Duration, s trace.Stage, k trace.Kind, change func(*trace.Event)) {
		e := trace.Event{Time: b.Started.Add(at), Boot: b.ID, Node: b.Node, MAC: b.MAC, Stage: s, Kind: k}
		if change != nil {
			change(&e)
		}
		out = append(out, e)
	}
	for i, b := range boots {
		add(b, 0, trace.DHCP, trace.Begin, nil)
		add(b, 2*time.Second, trace.DHCP, trace.End, nil)
		add(b, 3*time.Second, trace.Kernel, trace.Begin, nil)
		add(
			b,
			4*time.Second,
			trace.Kernel,
			trace.End,
			func(e *trace.Event) { e.Bytes = map[string]int64{trace.SourceK: 8_200_000} },
		)
		add(
			b,
			7*time.Second,
			trace.Init,
			trace.Begin,
			func(e *trace.Event) { e.Attrs = map[string]string{trace.AttrKernel: "2s"} },
		)
		if i == 1 {
			add(b, 8*time.Second, trace.Manifest, trace.Begin, nil)
			add(b, 9*time.Second, trace.Manifest, trace.Fail, func(e *trace.Event) {
				e.Attempt, e.Message, e.Hint = 2, "fetch manifest: 404", "was the version deleted?"
			})
			continue
		}
		add(b, 7500*time.Millisecond, trace.Init, trace.End, nil)
		add(b, 9*time.Second, trace.Root, trace.Begin, nil)
		add(b, 9300*time.Millisecond, trace.Root, trace.End, nil)
		add(
			b,
			15*time.Second,
			trace.Booted,
			trace.End,
			func(e *trace.Event) { e.Bytes = map[string]int64{"server": 33_100_000} },
		)
	}
	return out
}
