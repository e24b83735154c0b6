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

//go:embed send.sh
var sendScript string

//go:embed sendnow.sh
var sendNowScript string

// What the scripts leave for each other and for the agent.
const (
	reportFile = ownDir + fleet.StateReport
	toldFile   = ownDir + "state-orders"
	reportUnit = "pando-state-report"

	reportProgram = ownDir + "state-report.sh"
)

// The way by which a node sends its state while it runs; the agent starts the unit, with an order behind its '@'.
const (
	sendFile = ownDir + "state-send.sh"
	sendUnit = fleet.StateSender + "@.service"
)

// Place names where a node keeps its state. Two nodes of which that is the same find each other's, if they have a
// directory each.
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
			if o.Through {
				fmt.Fprintf(&b, "fetch '%s' '%s' '%s'\n", o.ID, o.Digest, o.From)
			} else {
				fmt.Fprintf(&b, "take '%s' '%s'\n", o.ID, o.FromDir)
			}
		case fleet.SendState:
			fmt.Fprintf(&b, "send '%s' still\n", o.ID)
		}
	}
	return b.String() + "tidy\n"
}

// sendFiles send the state of a node that runs.
func sendFiles(base string) []fleet.File {
	script := fmt.Sprintf(
		"base='%s'\ntold='%s'\n%s%s\nsend \"$1\" live\n/bin/sh %s\n",
		base,
		toldFile,
		sendNowScript,
		sendScript,
		reportProgram,
	)
	return []fleet.File{
		file(sendFile, script),
		file(unitDir+sendUnit, `[Unit]
Description=Pando: this node's state is sent to the server, for another node
After=`+stateUnit+`
RequiresMountsFor=`+base+`

[Service]
Type=oneshot
ExecStart=/bin/sh `+sendFile+` %i
Nice=19
IOSchedulingClass=idle
`),
	}
}

// reportFiles tell the server what is kept: when it is in place, when the boot is over, and once a day from then
// on. Its sizes take reading all directories, so that is done beside everything else; the service counts as started
// at once, and holds up nothing.
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
