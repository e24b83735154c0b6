package initrd

import (
	"fmt"

	"pando/internal/extension"
	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// extensionFiles returns units that start systemd-sysext early, and reload systemd's units and start those of the
// extensions after it has laid them over the root. Without extensions there are none.
func extensionFiles(on []extension.Attached) []fleet.File {
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
		rootdir.Link(
			units+"sysinit.target.wants/systemd-sysext.service",
			"/usr/lib/systemd/system/systemd-sysext.service",
		),
		rootdir.Text(units+"systemd-sysext.service.d/pando.conf", dropIn),
	}
}
