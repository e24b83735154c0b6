package initrd

import (
	"context"
	"strings"

	"pando/internal/extension"
	"pando/internal/problem"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// extend attaches the extensions of this boot, before its services start; systemd-sysext lays them over the root.
// What cannot be attached is told, and the boot goes on without.
func (g *settings) extend(ctx context.Context) error {
	g.extensions.On = nil
	list := g.timeline.assigned().Extensions
	if len(list) == 0 || g.fallback.isOffline() || g.rootDevice.at.device > 0 {
		return nil
	}
	source := extension.Source{
		Dir:     rundir.Dir,
		As:      g.timeline.assigned(),
		Trust:   g.version.trust(),
		Cgroup:  g.rootDevice.cgroup,
		Running: g.timeline.assigned().Version,
		Network: g.network.lease.Network(),
		Idle:    true,
		Tell: func(message, hint string) {
			g.timeline.event(trace.Event{Stage: trace.Config, Kind: trace.Info, Message: message, Hint: hint})
		},
	}
	for _, e := range list {
		x, err := source.Attach(ctx, e, extension.Dir)
		if err != nil {
			g.timeline.event(
				trace.Event{
					Stage:   trace.Config,
					Kind:    trace.Info,
					Message: "without an extension: " + err.Error(),
					Hint:    problem.HintOf(err),
				},
			)
			continue
		}
		g.extensions.On = append(g.extensions.On, x)
	}
	return rundir.WriteJSON(rundir.Dir, extension.StateName, 0o600, g.extensions)
}

// extendedText is what to say of them.
func (g *settings) extendedText() string {
	var names []string
	for _, x := range g.extensions.On {
		names = append(names, x.Short())
	}
	if len(names) == 0 {
		return ""
	}
	return ", with " + strings.Join(names, ", ")
}
