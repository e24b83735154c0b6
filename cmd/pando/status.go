package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/trace"
)

// now is what everything that is shown as an age is measured by.
func (a *app) now() time.Time { return a.clock() }

func (a *app) statusCommand() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:     "status",
		Short:   "Show how the site does",
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, s)
			}
			a.printStatus(c.Server(), s)
			return nil
		}),
	})
}

func (a *app) printStatus(server string, s api.Status) {
	fields(a.out, "server", fmt.Sprintf("%s, release %s, up %s", server, s.Release, span(s.Time.Sub(s.Started))),
		"DHCP", dhcpText(s.DHCP), "adoption", string(s.Policy.Adoption)+", names "+s.Policy.Naming,
		"nodes", nodeCounts(s.Nodes), "booting", stageCounts(s.Stages), "loading", loadCounts(s.Loads), "received", sources(s.Bytes))
	a.printf("\n")
	if s.Failed > 0 {
		a.printTrouble(s)
	}
	a.printGroups(s.Groups)
	if len(s.Rollouts) > 0 {
		a.printf("\n")
		a.printRollouts(s.Rollouts)
	}
}

// statusFaults is how many boots that something is wrong with stand in the status.
const statusFaults = 5

// printTrouble puts first what wants somebody's attention.
func (a *app) printTrouble(s api.Status) {
	a.printf("%d failed:\n", s.Failed)
	for _, b := range s.Trouble[:min(len(s.Trouble), statusFaults)] {
		a.printf("  %s %s\n    to do: %s\n", bootOwner(b), b.Fault.Text, b.Fault.Do)
	}
	if s.Failed > statusFaults {
		a.printf("  and %d more: pando boot list --failed\n", s.Failed-statusFaults)
	}
	a.printf("\n")
}

func dhcpText(d api.DHCP) string {
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
	if d.Interface != "" {
		parts = append(parts, "on "+d.Interface)
	}
	if d.StoodDown {
		parts = append(parts, "STOOD DOWN: another server answers")
	}
	if len(d.Others) > 0 {
		parts = append(parts, "seen "+strings.Join(d.Others, " "))
	}
	return strings.Join(parts, ", ")
}

// nodeCounts is "12 adopted (10 booted, 2 booting), 1 discovered".
func nodeCounts(n map[string]int) string {
	var of []string
	for _, k := range []string{"booted", "booting", "failed", "down", "drift"} {
		if n[k] > 0 {
			of = append(of, fmt.Sprintf("%d %s", n[k], k))
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

// loadCounts is "10 of 10 nodes that may at the same time; 38 wait for their turn, the last about 5.7s".
func loadCounts(l api.Loads) string {
	if l.Loading == 0 && l.Waiting == 0 {
		return ""
	}
	s := fmt.Sprintf("%d of %d nodes that may at the same time", l.Loading, l.Slots)
	if l.Waiting > 0 {
		s += fmt.Sprintf("; %d wait for their turn, the last about %s", l.Waiting, span(l.Expect))
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
