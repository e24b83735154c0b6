package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/bench"
)

// lateRun means that a run reached its time limit before all nodes had booted.
type lateRun struct{ after time.Duration }

func (l *lateRun) Error() string {
	return fmt.Sprintf("not all nodes had booted after %s", l.after.Round(time.Second))
}

// isOwn reports whether a system belongs to Pando, with or without emulated machines.
func isOwn(system string) bool {
	return system == bench.PandoWay || slices.Contains(names(own()), system)
}

// repeated repeats a rival's run that failed before it measured anything, because the results of earlier runs should
// not be lost to a program of others that does not start. It does not repeat Pando's runs, whose failures the lab is
// meant to find, nor runs that were too slow or interrupted.
func repeated[R any](
	ctx context.Context,
	system string,
	kept func(R) bool,
	tell func(error),
	run func() (R, error),
) (r R, err error) {
	r, err = run()
	late := (*lateRun)(nil)
	if err == nil || isOwn(system) || kept(r) || errors.As(err, &late) || ctx.Err() != nil {
		return r, err
	}
	tell(err)
	return run()
}

// runOrRepeat makes a storm, and repeats a rival's failed one. If that fails, too, the run has the reason in Why.
func (s *Storm) runOrRepeat(ctx context.Context, j job, run func() (stormRun, error)) (stormRun, error) {
	r, err := repeated(ctx, j.System, stormRun.failed, func(err error) {
		s.Say("%-8s N=%-4d %8s  failed, and is tried once more: %s", j.System, j.Nodes, j.Node, s.reason(err))
	}, run)
	if err == nil || isOwn(j.System) || ctx.Err() != nil {
		return r, err
	}
	began := r.Began
	if began.IsZero() {
		began = time.Now().UTC()
	}
	return stormRun{
		Release:    cmp.Or(j.Release, s.release),
		Why:        s.reason(err),
		Pair:       j.Pair,
		Change:     j.Change,
		System:     j.System,
		Nodes:      j.Nodes,
		NodeRate:   int64(j.Node),
		ServerRate: int64(j.Server),
		Again:      j.Again,
		Began:      began,
	}, err
}

// guestsOrRepeat is runOrRepeat for emulated machines.
func (s *Storm) guestsOrRepeat(ctx context.Context, system string, run func() (guestRun, error)) (guestRun, error) {
	r, err := repeated(ctx, system, func(r guestRun) bool { return len(r.Failed) > 0 }, func(err error) {
		s.Say("%s, %d guests: failed, and is tried once more: %s", system, s.guests, s.reason(err))
	}, run)
	if err != nil && !isOwn(system) && len(r.Failed) == 0 && ctx.Err() == nil {
		r.Failed = []string{s.reason(err)}
	}
	return r, err
}

// reason returns an error for the results: paths are relative to the lab's directory.
func (s *Storm) reason(err error) string {
	return strings.ReplaceAll(bench.Reason(err), s.Dir+"/", "")
}

// circumstances describes what a run had in addition to ordinary runs.
func (r stormRun) circumstances() string {
	var out string
	if r.Fault != "" {
		out += ", fault " + r.Fault
	}
	if r.K != nil {
		out += ", with K"
	}
	if r.Change != (change{}) {
		out += ", " + r.Change.String()
	}
	return out
}
