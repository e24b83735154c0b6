package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Portion is a number of nodes: "3", or "10%" of them.
type Portion string

// ParsePortion checks the form of a portion: 1 to 99999, or 1% to 100%.
func ParsePortion(s string) (Portion, error) {
	share, percent := strings.CutSuffix(s, "%")
	if percent && (isNumber(share, 2) || share == "100") || !percent && isNumber(s, 5) {
		return Portion(s), nil
	}
	return "", fmt.Errorf("%q: use a number of nodes such as 3, or a share of them such as 10%%", s)
}

// AtLeast returns the portion of n nodes, rounded up.
func (p Portion) AtLeast(n int) int { return p.of(n, 99) }

// AtMost returns the portion of n nodes, rounded down, but at least one, so that a rollout advances.
func (p Portion) AtMost(n int) int { return max(1, p.of(n, 0)) }

func (p Portion) of(n, round int) int {
	share, percent := strings.CutSuffix(string(p), "%")
	k, err := strconv.Atoi(share)
	if err != nil {
		return 0 // ParsePortion accepts no such portion
	}
	if percent {
		return (n*k + round) / 100
	}
	return k
}

// Gate is one condition that a node must meet on a new version:
//
//	booted          the node has booted within three times the usual duration
//	booted:2.5      within that many times the usual duration
//	units           no unit has failed that had not failed before
//	speed           boots of the version are not slower than those of the previous version
//	script:NAME     the hook NAME on the server accepts the node
type Gate string

// The kinds of gates.
const (
	GateBooted Gate = "booted"
	GateUnits  Gate = "units"
	GateSpeed  Gate = "speed"
	GateScript Gate = "script"
)

// usualTimes is how many times the usual duration a boot may take if the gate does not say.
const usualTimes = 3

// Kind returns the part before the colon.
func (g Gate) Kind() Gate {
	kind, _, _ := strings.Cut(string(g), ":")
	return Gate(kind)
}

// Arg returns the part after the colon.
func (g Gate) Arg() string {
	_, arg, _ := strings.Cut(string(g), ":")
	return arg
}

// Times returns how many times the usual duration a boot may take.
func (g Gate) Times() float64 {
	if f, err := strconv.ParseFloat(g.Arg(), 64); err == nil {
		return f
	}
	return usualTimes
}

// ParseGates parses gates that are separated by commas. It removes quotes around a script's name.
func ParseGates(s string) ([]Gate, error) {
	var out []Gate
	for part := range strings.SplitSeq(s, ",") {
		kind, arg, _ := strings.Cut(strings.TrimSpace(part), ":")
		g := Gate(kind)
		if arg = strings.Trim(arg, `'"`); arg != "" {
			g += Gate(":" + arg)
		}
		if err := g.Validate(); err != nil {
			return nil, err
		}
		if slices.Contains(out, g) {
			return nil, fmt.Errorf("gate %s is named twice", g)
		}
		out = append(out, g)
	}
	return out, nil
}

// Validate returns an error for an unknown gate.
func (g Gate) Validate() error {
	arg := g.Arg()
	switch {
	case g == GateBooted, g == GateUnits, g == GateSpeed:
		return nil
	case g.Kind() == GateBooted:
		if f, err := strconv.ParseFloat(arg, 64); err != nil || !(f >= 1 && f <= 100) {
			return fmt.Errorf("gate %q: how many times the usual time is a number from 1 to 100", string(g))
		}
		return nil
	case g.Kind() == GateScript:
		return ValidHook(arg)
	}
	return fmt.Errorf("gate %q: use booted, booted:TIMES, units, speed or script:NAME", string(g))
}

// ValidHook checks the name of a hook: a file name in the server's hook directory, not a path.
func ValidHook(s string) error { return ValidName("hook", s) }

// Validate returns an error for an invalid field of a plan.
func (p RolloutPlan) Validate() error {
	var err error
	for name, portion := range map[string]Portion{"canary": p.Canary, "wave": p.Wave,
		"max unavailable": p.MaxUnavailable} {
		if _, e := ParsePortion(string(portion)); e != nil && (name != "canary" || portion != "") {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
		}
	}
	for _, n := range p.CanaryNodes {
		err = errors.Join(err, ValidNodeName(n))
	}
	for _, g := range p.Gates {
		err = errors.Join(err, g.Validate())
	}
	for _, w := range p.Windows {
		_, e := w.parse()
		err = errors.Join(err, e)
	}
	for _, h := range []string{p.Drain, p.Undrain, p.Reboot} {
		if h != "" {
			err = errors.Join(err, ValidHook(h))
		}
	}
	err = errors.Join(err, p.Method.Validate())
	switch {
	case err != nil:
	case p.Reboot != "" && p.Method.Effective() != MethodReboot:
		err = fmt.Errorf("method %s with a reboot hook: it is the hook that reboots", p.Method)
	case p.Canary == "" && len(p.CanaryNodes) == 0:
		err = errors.New("a rollout needs a canary")
	case len(p.Gates) == 0:
		err = errors.New("a rollout needs a gate")
	case p.OnFail != FailReturn && p.OnFail != FailHalt:
		err = fmt.Errorf("on fail %q: use return or halt", p.OnFail)
	case p.Soak < 0 || p.DrainFor <= 0 || p.Soak > maxSpan || p.DrainFor > maxSpan:
		err = fmt.Errorf("soak %s, drain for %s: use times of up to %s", p.Soak, p.DrainFor, maxSpan)
	case p.Undrain != "" && p.Drain == "":
		err = errors.New("an undrain hook without a drain hook: nothing is ever drained")
	}
	return err
}

// maxSpan bounds the durations of a plan.
const maxSpan = 30 * 24 * time.Hour
