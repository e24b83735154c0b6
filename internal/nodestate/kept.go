package nodestate

import (
	_ "embed"

	"pando/internal/fleet"
)

//go:embed kept.sh
var keptScript string

// keptList is where the state script leaves which files are kept: a name where it is kept, and a path, on each line.
const keptList = ownDir + "kept-files"

// keptFiles are the units that copy single files to where they are kept: when one has changed, which systemd sees,
// and once more at the end of the boot, when the programs that write them have ended.
//
// A file cannot be mounted in its place as a directory is: programs replace files by renaming others over them,
// which a mount on the name refuses.
func keptFiles(base string) []fleet.File {
	order := "After=" + stateUnit + "\nRequiresMountsFor=" + base + "\n"
	run := "/bin/sh " + ownDir + "kept.sh"
	return []fleet.File{
		file(ownDir+"kept.sh", "base='"+base+"'\nlist='"+keptList+"'\n"+keptScript),
		file(unitDir+"pando-kept@.path", `[Unit]
Description=Pando: %f is kept

[Path]
PathChanged=%f
Unit=pando-kept.service
TriggerLimitIntervalSec=0
`),
		file(unitDir+"pando-kept.service", `[Unit]
Description=Pando: files that are kept
`+order+`StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=`+run+`
`),
		file(unitDir+"pando-kept-last.service", `[Unit]
Description=Pando: files that are kept, at the end
DefaultDependencies=no
`+order+`Before=sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=`+run+`
ExecStop=`+run+`
TimeoutStopSec=60
`),
	}
}
