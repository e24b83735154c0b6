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
func (m *machine) extend(ctx context.Context) error {
	m.extensions.On = nil
	list := m.assigned().Extensions
	if len(list) == 0 || m.isOffline() || m.at.device > 0 {
		return nil
	}
	source := extension.Source{
		Dir:     rundir.Dir,
		As:      m.assigned(),
		Trust:   m.trust(),
		Cgroup:  m.cgroup,
		Running: m.assigned().Version,
		Network: m.lease.Network(),
		Idle:    true,
		Tell: func(message, hint string) {
			m.event(trace.Event{Stage: trace.Config, Kind: trace.Info, Message: message, Hint: hint})
		},
	}
	for _, e := range list {
		x, err := source.Attach(ctx, e, extension.Dir)
		if err != nil {
			m.event(
				trace.Event{
					Stage:   trace.Config,
					Kind:    trace.Info,
					Message: "without an extension: " + err.Error(),
					Hint:    problem.HintOf(err),
				},
			)
			continue
		}
		m.extensions.On = append(m.extensions.On, x)
	}
	return rundir.WriteJSON(rundir.Dir, extension.StateName, 0o600, m.extensions)
}

// extendedText is what to say of them.
func (m *machine) extendedText() string {
	var names []string
	for _, x := range m.extensions.On {
		names = append(names, x.Short())
	}
	if len(names) == 0 {
		return ""
	}
	return ", with " + strings.Join(names, ", ")
}
