package listing

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/trace"
)

// Faults prints what is wrong with boots, and what to do.
func Faults(w io.Writer, boots []api.Boot) {
	if len(boots) == 0 {
		fmt.Fprintf(w, "no node's latest boot has anything wrong with it\n")
		return
	}
	for _, b := range boots {
		output.Fprintf(w, "%s  %s  %s\n  %s\n  to do: %s\n",
			BootOwner(b), b.ID, output.Time(b.Fault.Since), b.Fault.Text, b.Fault.Do)
	}
}

// BootOwner returns the node of a boot, or the MAC of an unknown machine.
func BootOwner(b api.Boot) string {
	if b.Node == "" {
		return b.MAC.String()
	}
	return b.Node
}

// Groups prints a table of groups.
func Groups(w io.Writer, groups []api.Group) {
	t := output.NewTable(w, "GROUP", "IMAGE", "SHOULD RUN", "NODES")
	for _, g := range groups {
		t.Row(g.Name, fleet.RefText(g.Image, g.Follow), g.Desired.Short(), strconv.Itoa(g.Nodes))
	}
	t.Flush()
}

// Rollouts prints a table of rollouts.
func Rollouts(w io.Writer, all []api.Rollout, now time.Time) {
	t := output.NewTable(w, "ROLLOUT", "STATE", "WAVE", "TO", "NODES", "BEGAN", "REASON")
	for _, r := range all {
		t.Row(r.ID, r.State.Text(), WaveText(r), string(r.Asked), PhaseCounts(r), output.Ago(now, r.Created), r.Reason)
	}
	t.Flush()
}

// WaveText returns the number of the current wave and of all waves: "1/4".
func WaveText(r api.Rollout) string { return fmt.Sprintf("%d/%d", r.Wave+1, r.Waves) }

// phaseOrder is the order in which phases are shown: the most advanced first.
var phaseOrder = []fleet.RolloutPhase{
	fleet.PhasePassed,
	fleet.PhaseFailed,
	fleet.PhaseChecking,
	fleet.PhaseBooting,
	fleet.PhaseRebooting,
	fleet.PhaseDraining,
	fleet.PhaseWaiting,
	fleet.PhaseAway,
	fleet.PhaseReturned,
	fleet.PhaseLost,
	fleet.PhaseLeft,
}

// PhaseText returns a node's phase in a rollout for people.
func PhaseText(p fleet.RolloutPhase) string {
	switch p {
	case fleet.PhaseAway:
		return "offline"
	case fleet.PhaseReturned:
		return "rolled back"
	case fleet.PhaseLost:
		return "unreachable"
	case fleet.PhaseLeft:
		return "left group"
	}
	return string(p)
}

// PhaseCounts returns "2 passed, 1 booting, 27 waiting".
func PhaseCounts(r api.Rollout) string {
	var parts []string
	for _, p := range phaseOrder {
		if n := r.Phases[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, PhaseText(p)))
		}
	}
	return strings.Join(parts, ", ")
}

// DHCPText describes the server's DHCP mode, and the other DHCP servers that it has seen.
func DHCPText(d api.DHCP) string {
	var parts []string
	switch d.Mode {
	case "own":
		parts = append(parts, "own server")
		if d.Range != "" {
			parts = append(parts, "range "+d.Range)
		}
	case "proxy":
		parts = append(parts, "proxyDHCP beside the site's server")
	default:
		return "none"
	}
	if len(d.Interfaces) > 0 {
		parts = append(parts, "on "+strings.Join(d.Interfaces, " "))
	}
	if text := d.Stopped(); text != "" {
		parts = append(parts, text)
	}
	if len(d.Others) > 0 {
		parts = append(parts, "seen "+strings.Join(d.Others, " "))
	}
	return strings.Join(parts, ", ")
}

// EventText returns an event without its time and node.
func EventText(e trace.Event) string {
	parts := []string{fmt.Sprintf("%-10s %-5s", e.Stage, e.Kind)}
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", e.Attempt))
	}
	for _, s := range []string{e.Message, output.BySource(e.Bytes)} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if _, counters := e.Attrs["hits"]; !counters { // of a boot pack: the message has them in words
		for _, k := range slices.Sorted(maps.Keys(e.Attrs)) {
			parts = append(parts, k+"="+e.Attrs[k])
		}
	}
	s := strings.Join(parts, "  ")
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return strings.TrimRight(output.OneLine(s), " ")
}
