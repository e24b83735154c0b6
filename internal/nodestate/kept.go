package nodestate

import (
	_ "embed"

	"pando/internal/fleet"
)

//go:embed kept.sh
var keptScript string

// keptList is the file in which the state script lists the kept files. Each line has a file's name in the state
// directory and its path.
const keptList = ownDir + "kept-files"

// keptFiles returns units that copy single kept files to the state directory: when systemd sees a change, and at
// shutdown, after their programs have ended. A bind mount is not possible, because programs replace files by
// renaming.
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
