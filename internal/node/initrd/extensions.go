package initrd

import (
	"context"
	"strings"

	"pando/internal/extension"
	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// extend attaches the extensions of this boot before its services start. systemd-sysext lays them over the root
// later. An extension that cannot be attached is reported, and the boot goes on without it.
func (g *settings) extend(ctx context.Context, s *Session, lease link.Lease) (state extension.State, err error) {
	as := &s.Assignment
	if len(as.Extensions) == 0 || s.Offline != nil || g.at.device > 0 {
		return state, nil
	}
	source := extension.Source{
		Dir:     rundir.Dir,
		As:      *as,
		Trust:   trust(g.timeline.config, *as),
		Cgroup:  g.cgroup,
		Running: as.Version,
		Network: lease.Network(),
		Idle:    true,
		Tell: func(message, hint string) {
			g.timeline.event(trace.Event{Stage: trace.Config, Kind: trace.Info, Message: message, Hint: hint})
		},
	}
	for _, e := range as.Extensions {
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
		state.On = append(state.On, x)
	}
	return state, rundir.WriteJSON(rundir.Dir, extension.StateName, 0o600, state)
}

// extendedText returns the end of the phase's message, which names the attached extensions.
func extendedText(state extension.State) string {
	var names []string
	for _, x := range state.On {
		names = append(names, x.Short())
	}
	if len(names) == 0 {
		return ""
	}
	return ", with " + strings.Join(names, ", ")
}
