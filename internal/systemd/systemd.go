package systemd

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
)

// Systemctl runs the image's systemctl and returns its output. It fails in an image without systemd.
func Systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", append([]string{"--no-pager"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out, err := cmd.Output()
	return string(out), err
}

// GoingDown reports whether the machine is shutting down. Otherwise only the agent is being stopped.
func GoingDown(ctx context.Context) bool {
	out, err := Systemctl(ctx, "show", "--property=SystemState")
	return err == nil && properties(out)["SystemState"] == "stopping"
}

// SwitchesOff reports whether a machine that shuts down stays off.
func SwitchesOff(ctx context.Context, systemctl func(context.Context, ...string) (string, error)) bool {
	jobs, err := systemctl(ctx, "list-jobs", "--plain", "--no-legend")
	return err == nil && (strings.Contains(jobs, " poweroff.target ") || strings.Contains(jobs, " halt.target "))
}

// SystemdAsks is how often a complete account is requested. A machine may be so busy that it never answers in time;
// an incomplete account is used then.
const SystemdAsks = 5

// Read returns systemd's account of the boot, nil while the boot is not finished. whole reports whether the account
// is complete.
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
	// Without --all, units that have ended are left out.
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

// Waits returns the units of running jobs. A boot that does not progress waits for these.
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

// words returns a column of the lines whose last word ends with last.
func words(text string, column int, last string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > column && strings.HasSuffix(f[len(f)-1], last) {
			out = append(out, f[column])
		}
	}
	return out
}
