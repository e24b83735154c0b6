package systemd

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
)

// Systemctl runs the image's own; an image without systemd has none, and no figures.
func Systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", append([]string{"--no-pager"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out, err := cmd.Output()
	return string(out), err
}

// GoingDown tells an end of the machine from an end of the agent alone.
func GoingDown(ctx context.Context) bool {
	out, err := Systemctl(ctx, "show", "--property=SystemState")
	return err == nil && properties(out)["SystemState"] == "stopping"
}

// SwitchesOff tells whether a machine that goes down stays off.
func SwitchesOff(ctx context.Context, systemctl func(context.Context, ...string) (string, error)) bool {
	jobs, err := systemctl(ctx, "list-jobs", "--plain", "--no-legend")
	return err == nil && (strings.Contains(jobs, " poweroff.target ") || strings.Contains(jobs, " halt.target "))
}

// SystemdAsks is how often systemd is asked for a whole account. Of a machine so busy that it never answers in time,
// half an account is better than none.
const SystemdAsks = 5

// Read returns systemd's account of the boot, nil while the boot is not finished, and whether all of it is
// there.
func Read(
	ctx context.Context,
	systemctl func(context.Context, ...string) (string, error),
) (s *api.Systemd, whole bool) {
	out, err := systemctl(ctx, "show", "--property=UserspaceTimestampMonotonic",
		"--property=FinishTimestampMonotonic", "--property=SystemState")
	if err != nil {
		return nil, false
	}
	p := properties(out)
	s = &api.Systemd{Userspace: microseconds(p["UserspaceTimestampMonotonic"]),
		Finish: microseconds(p["FinishTimestampMonotonic"]), State: p["SystemState"]}
	if s.Finish == 0 {
		return nil, false
	}
	if s.Failed, err = Failed(ctx, systemctl); err != nil {
		return s, false
	}
	// Without --all those are left out that have ended.
	text, err := systemctl(ctx, "show", "*", "--all", "--property=Id,After,"+
		"InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic,InactiveEnterTimestampMonotonic")
	if err != nil {
		return s, false
	}
	target, err := systemctl(ctx, "show", "--property=Id", "default.target")
	if err != nil {
		return s, false
	}
	units := unitStarts(text, s.Finish)
	s.Units = worthKeeping(units, critical(units, properties(target)["Id"]))
	return s, true
}

// Failed returns the units that have failed.
func Failed(ctx context.Context, systemctl func(context.Context, ...string) (string, error)) ([]string, error) {
	failed, err := systemctl(ctx, "list-units", "--state=failed", "--plain", "--no-legend")
	return words(failed, 0, ""), err
}

// Waits are the units of the jobs that run, which is what a boot waits for that does not go on.
func Waits(ctx context.Context, systemctl func(context.Context, ...string) (string, error)) []string {
	jobs, _ := systemctl(ctx, "list-jobs", "--plain", "--no-legend")
	return words(jobs, 1, "running")
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

// words returns a column of the lines that end with a word.
func words(text string, column int, last string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > column && strings.HasSuffix(f[len(f)-1], last) {
			out = append(out, f[column])
		}
	}
	return out
}
