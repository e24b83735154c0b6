package initrd

import (
	"fmt"

	"pando/internal/extension"
	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// extensionFiles have systemd-sysext started early, and systemd look at its units again when it has laid extensions
// over the root. They are there in each boot: extensions may come later.
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
