package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
)

// level is how bad a finding is.
type level string

const (
	fine    level = "ok"
	note    level = "note"    // good to know
	warning level = "warning" // some nodes will not boot, or will later not
	problem level = "problem" // no node boots
)

// finding is what one look at one thing showed, and how to mend it.
type finding struct {
	Check   string `json:"check"` // "interface", "ports", ...
	Level   level  `json:"level"`
	Message string `json:"message"`
	Mend    string `json:"mend,omitempty"`
}

// doctorOptions say where to look. The paths are parameters so that tests can show it another machine.
type doctorOptions struct {
	iface     string // "": every one that is not the loopback
	bootFiles string
	agent     string
	data      string
	proc      string // "/proc"
	quick     bool   // leave out what takes seconds: listening for DHCP servers
}

// check is one look. The checks are an ordered list: what stops everything comes first.
type check struct {
	name string
	run  func(context.Context, doctorOptions) []finding
}

// look runs the check and puts its name on what it found.
func (k check) look(ctx context.Context, o doctorOptions) []finding {
	findings := k.run(ctx, o)
	for i := range findings {
		findings[i].Check = k.name
	}
	return findings
}

func (a *app) checks() []check {
	return []check{
		{"interface", checkInterface},
		{"ports", checkPorts},
		{"dhcp", checkDHCP},
		{"firewall", checkFirewall},
		{"boot-files", checkBootFiles},
		{"tools", checkTools},
		{"disk", checkDisk},
		{"clock", checkClock},
		{"nics", a.checkNICs},
		{"neighbours", a.checkNeighbours},
	}
}

func (a *app) doctorCommand() *cobra.Command {
	o := doctorOptions{proc: "/proc"}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps nodes from booting, and say how to mend it",
		Long: `Look at this machine for what goes wrong in practice: the interface, ports that others hold, a second
DHCP server, firewall rules, boot files, tools, disk space, the clock, and NICs of nodes that the image's kernel
has no module for. Exit code 0: fine; 7: something keeps nodes from booting; 8: warnings only.`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.data = a.data
			return a.doctor(cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.iface, "interface", "", "network interface that nodes are on")
	f.StringVar(&o.bootFiles, "boot-files", "", "directory of boot loaders (default /usr/lib/ipxe)")
	f.StringVar(&o.agent, "agent", "", "the pando-init binary (default: found beside pando)")
	f.BoolVar(&o.quick, "quick", false, "leave out what takes seconds")
	return a.readFlags(c)
}

// report is what `doctor --json` prints.
type report struct {
	Findings []finding `json:"findings"`
	Worst    level     `json:"worst"`
}

func (a *app) doctor(ctx context.Context, o doctorOptions) error {
	r := report{Findings: []finding{}, Worst: fine}
	for _, k := range a.checks() {
		for _, f := range k.look(ctx, o) {
			r.add(f)
			if !a.json {
				a.printFinding(f)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if a.json {
		if err := writeJSON(a.out, r); err != nil {
			return err
		}
	}
	switch r.Worst {
	case problem:
		return &exitError{exitProblem}
	case warning:
		return &exitError{exitWarning}
	}
	return nil
}

func (r *report) add(f finding) {
	r.Findings = append(r.Findings, f)
	if rank(f.Level) > rank(r.Worst) {
		r.Worst = f.Level
	}
}

func rank(l level) int {
	for i, o := range []level{fine, note, warning, problem} {
		if o == l {
			return i
		}
	}
	return 0
}

func (a *app) printFinding(f finding) {
	a.printf("%-8s %-11s %s\n", f.Level, f.Check, f.Message)
	if f.Mend != "" {
		a.printf("%20s mend: %s\n", "", f.Mend)
	}
}

func found(l level, mend, format string, args ...any) []finding {
	return []finding{{Level: l, Message: fmt.Sprintf(format, args...), Mend: mend}}
}

// socketPath is where the server on this machine listens for operators.
func socketPath(data string) string { return filepath.Join(data, "pando.sock") }
