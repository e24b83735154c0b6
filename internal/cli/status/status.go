package status

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/output"
	"pando/internal/terminal"
	"pando/internal/trace"
)

// Command returns the command `status`.
func Command(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:     "status",
		Short:   "Show how the site does",
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, s)
			}
			printStatus(env, c.Server(), s)
			return nil
		}),
	})
}

// printStatus prints the whole status; on a terminal only as many lines as fit.
func printStatus(env *cmdenv.Env, server string, s api.Status) {
	width, height := math.MaxInt, math.MaxInt
	if tty := terminal.Of(env.Out); tty != nil {
		width, height = terminal.Size(tty)
	}
	for _, line := range fitted(statusParts(server, s, env.Now()), height-1) {
		env.Printf("%s\n", strings.TrimRight(terminal.Cut(line, width), " "))
	}
}

// statusPart is a group of lines. If not all lines fit, lines of the last parts are omitted first.
type statusPart struct {
	lines []string
	least int    // this many lines are omitted last
	more  string // the command that shows the omitted lines
}

// statusParts returns the parts of a status, problems first.
func statusParts(server string, s api.Status, now time.Time) []statusPart {
	quiet := lines(func(w io.Writer) {
		output.Fields(
			w,
			"booting",
			stageCounts(s.Stages),
			"loading",
			loadCounts(s.Loads),
			"DHCP",
			listing.DHCPText(s.DHCP),
			"adoption",
			string(s.Policy.Adoption)+", names "+s.Policy.Naming,
			"received",
			output.BySource(s.Bytes),
		)
	})
	head := lines(func(w io.Writer) {
		output.Fields(
			w,
			"server",
			fmt.Sprintf("%s, release %s, up %s", server, s.Release, output.Span(s.Time.Sub(s.Started))),
			"nodes",
			nodeCounts(s.Nodes),
		)
	})
	groups := lines(func(w io.Writer) { listing.Groups(w, s.Groups) })
	parts := []statusPart{{lines: head, least: len(head)}}
	if bad := statusTrouble(s); len(bad) > 0 {
		parts = append(parts, statusPart{bad, 4, "pando boot list --failed"})
	}
	if bad := statusWarnings(s); len(bad) > 0 {
		parts = append(parts, statusPart{bad, len(bad), ""})
	}
	if len(s.Rollouts) > 0 {
		parts = append(
			parts,
			statusPart{lines(func(w io.Writer) { listing.Rollouts(w, s.Rollouts, now) }), 3, "pando rollout list"},
		)
	}
	return append(parts, statusPart{quiet, 1, ""}, statusPart{groups, 3, "pando group list"})
}

// lines returns the lines that tell prints.
func lines(tell func(io.Writer)) []string {
	var b strings.Builder
	tell(&b)
	return slices.Collect(strings.SplitSeq(strings.TrimRight(b.String(), "\n"), "\n"))
}

// statusFaults is how many boots with problems the status lists.
const statusFaults = 5

// statusTrouble returns the part about boots with problems.
func statusTrouble(s api.Status) (out []string) {
	if s.Failed == 0 {
		return nil
	}
	degraded := s.Nodes[string(trace.Degraded)]
	what := []string{fmt.Sprintf("%d failed", s.Failed-degraded), fmt.Sprintf("%d degraded", degraded)}
	what = slices.DeleteFunc(what, func(s string) bool { return strings.HasPrefix(s, "0 ") })
	out = append(out, strings.Join(what, ", ")+":")
	shown := s.Trouble[:min(len(s.Trouble), statusFaults)]
	for _, b := range shown {
		out = append(
			out,
			"  "+listing.BootOwner(b)+" "+output.OneLine(b.Fault.Text),
			"    to do: "+output.OneLine(b.Fault.Do),
		)
	}
	if more := s.Failed - len(shown); more > 0 {
		out = append(out, fmt.Sprintf("  and %d more: pando boot list --failed", more))
	}
	return out
}

// statusWarnings returns the part with other warnings.
func statusWarnings(s api.Status) (out []string) {
	if s.Disk != nil {
		out = append(out, "WARNING: "+s.Disk.Text(), "  to do: "+s.Disk.Do)
	}
	if text := s.DHCP.Stopped(); text != "" {
		out = append(out, "WARNING: "+text)
	}
	if s.DHCP.Addresses.Short() {
		out = append(out, "WARNING: "+s.DHCP.Addresses.Text())
	}
	for _, v := range s.Broken {
		groups := strings.Join(v.Groups, ", ")
		out = append(out, "WARNING: "+groups+" cannot boot: "+output.OneLine(v.Problem))
		if v.Do != "" {
			out = append(out, "  to do: "+output.OneLine(v.Do))
		}
	}
	if s.Logs.Full {
		out = append(out, "WARNING: journals of nodes are not taken: the disk of the server is full")
	}
	for _, name := range s.ClassSecrets {
		out = append(out, fmt.Sprintf("WARNING: secret %s is for a hardware class, which no secret is given to: "+
			"pando secret set %[1]s --for @GROUP", name))
	}
	if n := len(s.Full); n > 0 {
		out = append(out, fmt.Sprintf("WARNING: little room for what is written: %d: %s", n, fleet.Fold(s.Full)))
	}
	return out
}

// fitted joins parts with blank lines between them, in at most height lines. It shortens the last parts first, each to
// its least number of lines, and then omits whole parts from the end.
func fitted(parts []statusPart, height int) []string {
	total := func() int {
		n := len(parts) - 1
		for _, p := range parts {
			n += len(p.lines)
		}
		return n
	}
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		if over := total() - height; over > 0 && len(p.lines) > p.least {
			keep := max(p.least, len(p.lines)-over)
			gone := len(p.lines) - keep
			p.lines = slices.Clone(p.lines[:keep])
			if p.more != "" {
				p.lines[keep-1] = fmt.Sprintf("  ... %d lines more: %s", gone+1, p.more)
			}
		}
	}
	for len(parts) > 1 && total() > height {
		parts = parts[:len(parts)-1]
	}
	var out []string
	for i, p := range parts {
		if i > 0 {
			out = append(out, "")
		}
		out = append(out, p.lines...)
	}
	return out[:max(0, min(len(out), height))]
}

// nodeCounts returns "12 adopted (10 booted, 2 booting), 1 discovered".
func nodeCounts(n map[string]int) string {
	var of []string
	for _, k := range []string{"booted", "booting", "failed", "degraded", "silent", "down", "drift"} {
		if n[k] > 0 {
			of = append(of, fmt.Sprintf("%d %s", n[k], strings.Replace(k, "drift", "need a reboot", 1)))
		}
	}
	s := fmt.Sprintf("%d adopted", n["adopted"])
	if len(of) > 0 {
		s += " (" + strings.Join(of, ", ") + ")"
	}
	if n["discovered"] > 0 {
		s += fmt.Sprintf(", %d discovered: accept with `pando node adopt @discovered`", n["discovered"])
	}
	return s
}

// loadCounts returns the nodes that load kernel+initrd, the admission slots, and the nodes that wait for one.
func loadCounts(l api.Loads) string {
	if l.Loading == 0 && l.Waiting == 0 {
		return ""
	}
	s := fmt.Sprintf("%d of %d nodes that may at the same time", l.Loading, l.Slots)
	if l.Waiting > 0 {
		s += fmt.Sprintf("; %d wait for their turn, the last about %s", l.Waiting, output.Span(l.Expect))
	}
	return s
}

func stageCounts(m map[trace.Stage]int) string {
	var parts []string
	for _, s := range trace.Stages() {
		if m[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", m[s], s))
		}
	}
	return strings.Join(parts, ", ")
}
