package boot

import (
	"context"
	"fmt"
	"strings"

	"pando/internal/fleet"
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
	source := extensionSource{
		dir:     RunDir,
		as:      m.assigned(),
		trust:   m.trust(),
		cgroup:  m.cgroup,
		running: m.assigned().Version,
		network: m.lease.network(),
		idle:    true,
		tell: func(message, hint string) {
			m.event(trace.Event{Stage: trace.Config, Kind: trace.Info, Message: message, Hint: hint})
		},
	}
	for _, e := range list {
		x, err := source.attach(ctx, e, extensionsDir)
		if err != nil {
			m.event(
				trace.Event{
					Stage:   trace.Config,
					Kind:    trace.Info,
					Message: "without an extension: " + err.Error(),
					Hint:    hintOf(err),
				},
			)
			continue
		}
		m.extensions.On = append(m.extensions.On, x)
	}
	return writeJSON(RunDir, extensionsName, 0o600, m.extensions)
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

// extensionFiles have systemd-sysext started early, and systemd look at its units again when it has laid extensions
// over the root. They are there in each boot: extensions may come later.
func extensionFiles(on []attached) []fleet.File {
	if len(on) == 0 {
		return nil
	}
	const units = "/run/systemd/system/"
	dropIn := "[Service]\nExecStartPost=systemctl daemon-reload\n"
	for _, x := range on {
		for _, u := range x.Units {
			dropIn += fmt.Sprintf("ExecStartPost=-systemctl --no-block start %s\n", u)
		}
	}
	return []fleet.File{
		linkFile(units+"sysinit.target.wants/systemd-sysext.service", "/usr/lib/systemd/system/systemd-sysext.service"),
		textFile(units+"systemd-sysext.service.d/pando.conf", dropIn),
	}
}
