package hostcheck

import (
	"context"
	"fmt"

	"pando/internal/api"
	"pando/internal/cmdenv"
)

// Level is the severity of a finding.
type Level string

// The levels, from the best to the worst.
const (
	Fine    Level = "ok"      // as it should be
	note    Level = "note"    // good to know
	Warning Level = "warning" // some nodes will not boot, or will later not
	Problem Level = "problem" // no node boots
)

// Finding is the result of one check, and how to fix it.
type Finding struct {
	Check   string `json:"check"` // "interface", "ports", ...
	Level   Level  `json:"level"`
	Message string `json:"message"`
	Fix     string `json:"mend,omitempty"`
}

// Options say what to check. The paths are parameters so that tests can present another machine.
type Options struct {
	Interface string // "": every interface except the loopback
	BootFiles string
	Agent     string
	Data      string
	Proc      string // "/proc"
	Quick     bool   // skip checks that take seconds: listening for DHCP servers

	// Ports are the ports of a server that will be started; nil: those of the running server or, without one, the usual
	// ports.
	Ports []api.Port
}

// Check is one check of this machine. The list of checks is ordered: what stops all nodes comes first.
type Check struct {
	Name string
	run  func(context.Context, Options) []Finding
}

// Look runs the check and sets its name in the findings.
func (k Check) Look(ctx context.Context, o Options) []Finding {
	findings := k.run(ctx, o)
	for i := range findings {
		findings[i].Check = k.Name
	}
	return findings
}

// Checks returns all checks, in the order in which they are printed.
func Checks(env *cmdenv.Env) []Check {
	return []Check{
		{"interface", checkInterface},
		{"ports", func(ctx context.Context, o Options) []Finding {
			return checkPorts(o.Proc, portsOf(ownStatus(ctx, o), o))
		}},
		{"dhcp", checkDHCP},
		{"firewall", checkFirewall},
		{"boot-files", checkBootFiles},
		{"tools", checkTools},
		{"disk", checkDisk},
		{"clock", checkClock},
		{"images", func(ctx context.Context, o Options) []Finding { return checkImages(env, ctx, o) }},
		{"nics", func(ctx context.Context, o Options) []Finding { return checkNICs(env, ctx, o) }},
		{"secrets", func(ctx context.Context, o Options) []Finding { return checkSecrets(env, ctx, o) }},
		{"neighbours", func(ctx context.Context, o Options) []Finding { return checkNeighbours(env, ctx, o) }},
	}
}

// Rank returns the severity of a level as a number: the higher, the worse.
func Rank(l Level) int {
	for i, o := range []Level{Fine, note, Warning, Problem} {
		if o == l {
			return i
		}
	}
	return 0
}

// Print prints a finding and its fix.
func Print(env *cmdenv.Env, f Finding) {
	env.Printf("%-8s %-11s %s\n", f.Level, f.Check, f.Message)
	if f.Fix != "" {
		env.Printf("%20s fix: %s\n", "", f.Fix)
	}
}

func found(l Level, fix, format string, args ...any) []Finding {
	return []Finding{{Level: l, Message: fmt.Sprintf(format, args...), Fix: fix}}
}
