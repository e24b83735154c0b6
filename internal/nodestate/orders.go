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

// Files that the scripts write for each other and for the agent, and the unit and program that report the state.
const (
	reportFile = ownDir + fleet.StateReport
	toldFile   = ownDir + "state-orders"
	reportUnit = "pando-state-report"

	reportProgram = ownDir + "state-report.sh"
)

// Place identifies where a node keeps its state, "" if it keeps none. Nodes with the same place can read each other's
// state if each has its own directory.
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
	case st.Kind == fleet.StateDirectory: // the image mounts it
		return string(st.Kind) + " " + st.What
	}
	return strings.TrimSuffix(system, "4") + " " + what
}

// orderCalls returns the script's calls for the orders, in their order.
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
			if o.Through {
				fmt.Fprintf(&b, "fetch '%s' '%s' '%s'\n", o.ID, o.Digest, o.From)
			} else {
				fmt.Fprintf(&b, "take '%s' '%s'\n", o.ID, o.FromDir)
			}
		case fleet.SendState:
			fmt.Fprintf(&b, "send '%s'\n", o.ID)
		}
	}
	return b.String() + "tidy\n"
}

// reportFiles returns the units and the program that report what is kept: when it is in place, when the boot is over,
// and once a day. Sizes need a read of all directories, so the service is of low priority and counts as started at
// once.
func reportFiles(in Input, base string) []fleet.File {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"on='%s'\nplace='%s'\nbase='%s'\ntold='%s'\n%s",
		strings.Join(strings.Fields(in.Keeping.StateText()), " "),
		Place(in.Keeping),
		base,
		toldFile,
		reportScript,
	)
	for _, o := range in.Orders {
		if o.Kind == fleet.RemoveState {
			fmt.Fprintf(&b, "\tgone '%s' '%s'\n", o.ID, o.FromDir)
		}
	}
	fmt.Fprintf(&b, "}\nall >%[1]s.new && mv -f %[1]s.new %[1]s\n", reportFile)
	return []fleet.File{
		file(reportProgram, b.String()),
		file(unitDir+reportUnit+".service", `[Unit]
Description=Pando: tell the server what this node keeps
After=`+stateUnit+` default.target
RequiresMountsFor=`+base+`

[Service]
ExecStart=/bin/sh `+reportProgram+` sizes
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
