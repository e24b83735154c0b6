package nodestate

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"pando/internal/fleet"
)

// Input has everything that the files depend on.
type Input struct {
	Node    string
	Dir     string // the node's directory if several nodes share the storage; "": the node's name
	Keeping fleet.Keeping
	Orders  []fleet.StateOrder // orders that this boot carries out
}

// stateDir is the mount point of the state storage.
const stateDir = ownDir + "state"

// waitsFile tells the agent what the boot waits for.
const waitsFile = ownDir + "waits"

// stateUnit is the service that puts the state in place.
const stateUnit = "pando-state.service"

//go:embed state.sh
var stateScript string

// Files renders all files. Invalid settings are skipped: the server refused them when they were set.
func Files(in Input) []fleet.File {
	files := stateFiles(in)
	carrier, _ := carries(in.Keeping)
	for _, line := range in.Keeping.MountList() {
		if m, err := fleet.ParseMount(line); err == nil {
			files = append(files, mountFiles(m, m == carrier)...)
		}
	}
	files = append(files, swapFiles(in.Keeping)...)
	files = append(files, userFiles(in.Keeping)...)
	return append(files, sysctlFiles(in.Keeping)...)
}

// carries returns the node's mount that has its state, if there is one.
func carries(k fleet.Keeping) (best fleet.Mount, ok bool) {
	st, err := fleet.ParseState(k.StateText())
	if err != nil || st.Kind != fleet.StateDirectory {
		return best, false
	}
	for _, line := range k.MountList() {
		m, err := fleet.ParseMount(line)
		if err == nil && (st.What == m.Where || strings.HasPrefix(st.What, m.Where+"/")) &&
			len(m.Where) > len(best.Where) {
			best, ok = m, true
		}
	}
	return best, ok
}

// stateFiles returns the units and the script that mount the state storage, copy missing directories from the image,
// and bind each directory to its path.
func stateFiles(in Input) []fleet.File {
	st, err := fleet.ParseState(in.Keeping.StateText())
	kept := in.Keeping.Kept()
	if err != nil || st.Kind == fleet.StateNone || len(kept) == 0 {
		return nil
	}
	base := stateDir
	if st.Kind == fleet.StateDirectory {
		base = st.What
	}
	if st.Shared() {
		base += "/" + cmp.Or(in.Dir, in.Node)
	}
	files := []fleet.File{
		file(ownDir+"state.sh", script(in, st, base)),
		file(unitDir+stateUnit, service(st)),
	}
	if st.Kind == fleet.StateVolume {
		files = append(files, file(unitDir+volumeUnit, volumeService("the node's volume", "")))
	}
	for _, k := range kept {
		if !k.File {
			files = append(
				files,
				wanted(unitName(k.Path, ".mount"), "local-fs.target", bind(base+"/"+KeptName(k.Path), k.Path))...)
		}
	}
	return slices.Concat(files, reportFiles(in, base), keptFiles(base))
}

// KeptName is the name of a directory or file in the state directory: /var/log is var+log. Paths of kept directories
// must not contain a '+'.
func KeptName(dir string) string { return strings.ReplaceAll(strings.Trim(dir, "/"), "/", "+") }

// script returns the program of the state service: the settings, then the script.
func script(in Input, st fleet.State, base string) string {
	var b strings.Builder
	set := func(name, value string) { fmt.Fprintf(&b, "%s='%s'\n", name, value) } // values contain no quotes
	set("kind", string(st.Kind))
	set("dir", stateDir)
	set("base", base)
	set("list", keptList)
	set("told", toldFile)
	set("report", reportProgram)
	set("waits", waitsFile)
	switch st.Kind {
	case fleet.StateNetwork:
		m := fleet.Mount{What: st.What, Where: stateDir, Type: st.FileSystem, Options: st.Options}
		set("what", m.What)
		set("type", kernelType(m))
		set("options", mountOptions(m))
	case fleet.StateDirectory:
		set("what", st.What)
		if m, ok := carries(in.Keeping); ok {
			set("unit", unitName(m.Where, ".mount"))
		} else {
			set("unit", "")
		}
	case fleet.StateVolume:
		set("what", volumeDevice)
		set("type", st.FileSystem)
		set("options", "noatime,discard") // discard frees deleted blocks on the server
	case fleet.StateDisk:
		set("what", "/dev/disk/by-partlabel/"+fleet.StatePartition)
		set("type", st.FileSystem)
		set("options", "noatime")
	}
	b.WriteString(stateScript + ordersScript + orderCalls(in.Orders))
	for _, k := range in.Keeping.Kept() {
		how := "seed"
		if k.File {
			how = "single"
		}
		fmt.Fprintf(&b, "%s '%s' '%s'\n", how, k.Path, KeptName(k.Path))
	}
	b.WriteString("watch\n")
	return b.String()
}

// service runs before any program of the image that might write to kept files. It waits without a limit: a node
// without its state would write to files that the next boot loses.
func service(st fleet.State) string {
	after := ""
	if st.Kind == fleet.StateDisk { // udev loads the disk's driver and makes its link
		after = "After=systemd-udevd.service systemd-udev-trigger.service\n"
	}
	if st.Kind == fleet.StateVolume {
		after = "Wants=" + volumeUnit + "\n"
	}
	return `[Unit]
Description=Pando: node state
DefaultDependencies=no
` + after + `Before=local-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=infinity
StandardOutput=journal+console
StandardError=inherit
ExecStart=/bin/sh ` + ownDir + `state.sh
ExecStartPost=-` + ownDir + `pando-init mark state
`
}

// The volume's device on the node, and the unit that attaches it.
const (
	volumeDevice = "/dev/nbd1"
	volumeUnit   = "pando-volume.service"
)

// volumeService returns a unit that is never stopped: nothing conflicts with it, and at shutdown systemd does not
// kill processes whose name begins with '@'.
func volumeService(what, argument string) string {
	return `[Unit]
Description=Pando: ` + what + `
DefaultDependencies=no
IgnoreOnIsolate=yes
StartLimitIntervalSec=0

[Service]
ExecStart=@/run/pando/pando-init @pando-volume` + argument + `
Restart=always
RestartSec=1
OOMScoreAdjust=-1000
LimitMEMLOCK=infinity
Environment=TZ=
`
}

// bind returns the unit that mounts a kept directory on its path. Its condition skips files, which are copied.
func bind(from, to string) string {
	return `[Unit]
Description=Pando: ` + to + ` is kept
DefaultDependencies=no
Requires=` + stateUnit + `
After=` + stateUnit + `
Before=local-fs.target umount.target
Conflicts=umount.target
ConditionPathIsDirectory=` + from + `

[Mount]
What=` + from + `
Where=` + to + `
Type=none
Options=bind
`
}
