package boot

import (
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
)

// slowestUnits is how many units of a boot are worth keeping.
const slowestUnits = 12

// systemctl runs the image's own; an image without systemd has none, and no figures.
func systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", append([]string{"--no-pager"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out, err := cmd.Output()
	return string(out), err
}

// goingDown tells an end of the machine from an end of the agent alone.
func goingDown(ctx context.Context) bool {
	out, err := systemctl(ctx, "show", "--property=SystemState")
	return err == nil && properties(out)["SystemState"] == "stopping"
}

// readSystemd returns systemd's account of the boot, nil while the boot is not finished.
func readSystemd(ctx context.Context) *api.Systemd {
	out, err := systemctl(ctx, "show", "--property=UserspaceTimestampMonotonic",
		"--property=FinishTimestampMonotonic", "--property=SystemState")
	if err != nil {
		return nil
	}
	p := properties(out)
	s := &api.Systemd{Userspace: microseconds(p["UserspaceTimestampMonotonic"]),
		Finish: microseconds(p["FinishTimestampMonotonic"]), State: p["SystemState"]}
	if s.Finish == 0 {
		return nil
	}
	if out, err := systemctl(ctx, "list-units", "--state=failed", "--plain", "--no-legend"); err == nil {
		s.Failed = firstWords(out)
	}
	out, err = systemctl(ctx, "show", "*", "--property=Id",
		"--property=InactiveExitTimestampMonotonic", "--property=ActiveEnterTimestampMonotonic")
	if err == nil {
		s.Units = slowest(out, s.Finish)
	}
	return s
}

// slowest reads blocks of properties, one block a unit, and returns the units that took longest to start.
func slowest(text string, finish time.Duration) []api.UnitTime {
	var units []api.UnitTime
	for block := range strings.SplitSeq(text, "\n\n") {
		p := properties(block)
		u := api.UnitTime{Unit: p["Id"], Start: microseconds(p["InactiveExitTimestampMonotonic"]),
			Active: microseconds(p["ActiveEnterTimestampMonotonic"])}
		if u.Unit != "" && u.Start > 0 && u.Active > u.Start && u.Active <= finish {
			units = append(units, u)
		}
	}
	slices.SortStableFunc(units, func(a, b api.UnitTime) int {
		return int((b.Active - b.Start) - (a.Active - a.Start))
	})
	return units[:min(len(units), slowestUnits)]
}

// properties reads lines "Key=value".
func properties(text string) map[string]string {
	p := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			p[k] = v
		}
	}
	return p
}

func microseconds(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

func firstWords(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 {
			out = append(out, f[0])
		}
	}
	return out
}
