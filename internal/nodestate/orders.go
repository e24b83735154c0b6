package nodestate

import (
	_ "embed"
	"fmt"
	"strings"

	"pando/internal/fleet"
)

//go:embed orders.sh
var ordersScript string

//go:embed report.sh
var reportScript string

// What the scripts leave for each other and for the agent.
const (
	reportFile = ownDir + fleet.StateReport
	toldFile   = ownDir + "state-orders"
	reportUnit = "pando-state-report"
)

// Place names where a node keeps its state. Two nodes of which that is the same find each other's, if they have a directory each.
func Place(k fleet.Keeping) string {
	st, err := fleet.ParseState(k.StateText())
	if err != nil || st.Kind == fleet.StateNone || len(k.Kept()) == 0 {
		return ""
	}
	system, what := st.FileSystem, st.What
	switch m, ok := carries(k); {
	case !st.Shared():
		return string(st.Kind)
	case ok:
		system, what = m.Type, m.What+strings.TrimPrefix(st.What, m.Where)
	case st.Kind == fleet.StateDirectory: // which the image mounts
		return string(st.Kind) + " " + st.What
	}
	return strings.TrimSuffix(system, "4") + " " + what
}

// orderCalls has the state script do what was asked for, in the order in which it was.
func orderCalls(orders []fleet.StateOrder) string {
	var b strings.Builder
	for _, o := range orders {
		switch o.Kind {
		case fleet.ResetState:
			fmt.Fprintf(&b, "reset '%s'", o.ID)
			for _, p := range o.Paths {
				fmt.Fprintf(&b, " '%s'", KeptName(p))
			}
			b.WriteString("\n")
		case fleet.CopyState:
			fmt.Fprintf(&b, "take '%s' '%s'\n", o.ID, o.FromDir)
		}
	}
	return b.String() + "tidy\n"
}

// reportFiles tell the server what is kept: when it is in place, when the boot is over, and once a day from then on. Its sizes take reading all directories, so
// that is done beside everything else; the service counts as started at once, and holds up nothing.
func reportFiles(in Input, base string) []fleet.File {
	var b strings.Builder
	fmt.Fprintf(&b, "on='%s'\nplace='%s'\nbase='%s'\ntold='%s'\n%s", strings.Join(strings.Fields(in.Keeping.StateText()), " "), Place(in.Keeping), base, toldFile,
		reportScript)
	for _, o := range in.Orders {
		if o.Kind == fleet.RemoveState {
			fmt.Fprintf(&b, "\tgone '%s' '%s'\n", o.ID, o.FromDir)
		}
	}
	fmt.Fprintf(&b, "}\nall >%[1]s.new && mv -f %[1]s.new %[1]s\n", reportFile)
	return []fleet.File{
		file(ownDir+"state-report.sh", b.String()),
		file(unitDir+reportUnit+".service", `[Unit]
Description=Pando: tell the server what this node keeps
After=`+stateUnit+` default.target
RequiresMountsFor=`+base+`

[Service]
ExecStart=/bin/sh `+ownDir+`state-report.sh sizes
TimeoutStopSec=10
Nice=19
IOSchedulingClass=idle
`),
		file(unitDir+reportUnit+".timer", `[Unit]
Description=Pando: tell the server what this node keeps, once a day

[Timer]
OnUnitInactiveSec=1d
RandomizedDelaySec=1h
`),
	}
}
