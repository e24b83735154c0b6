package initrd

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"pando/internal/backoff"
	"pando/internal/problem"
	"pando/internal/trace"
)

// Phase is one named step of init. Its name is the stage that the timeline shows.
type Phase struct {
	Stage trace.Stage
	Hint  string // what to do if the phase takes long or fails; a hint of the error wins
	// Run does the step and returns a short description of the result. It is called again after a failure, so it
	// first checks what is done already. It returns when ctx ends, unless the kernel blocks it.
	Run func(ctx context.Context) (string, error)
	// Back is the phase to continue from after every third failure, for example because the address no longer works.
	Back trace.Stage
}

// Timing of the runner.
const (
	stillEvery   = 15 * time.Second
	failuresBack = 3
	// finalDelay is how long a failure that no retry can fix stays on the screen before the reboot.
	finalDelay = time.Minute
	// rebootDelay is the same for a boot whose time is over.
	rebootDelay = 10 * time.Second
	// DefaultRebootAfter is how long a phase may fail or hang before the machine is rebooted.
	DefaultRebootAfter = 10 * time.Minute
)

// errStuck ends Runner.Run: the machine is to be rebooted.
var errStuck = errors.New("boot is stuck")

// waiting describes the state of a machine that must never reboot by itself, after a failure that no retry can fix.
const waiting = "waiting for a person: this node is set to never reboot by itself"

// Runner runs phases in order. It reads no clock but the time package's, so that tests can fake it.
type Runner struct {
	Phases      []Phase
	Report      func(trace.Event)    // receives events with stage, kind, attempt, message, hint
	RebootAfter func() time.Duration // called at each failure; 0: the default, negative: never reboot
}

// Run returns nil when the last phase has ended, errStuck if a phase was stuck for RebootAfter, and ctx's error.
func (r *Runner) Run(ctx context.Context) error {
	failures := map[trace.Stage]int{}
	since := time.Now() // when the boot last reached a new phase
	for i, furthest := 0, 0; i < len(r.Phases); {
		p := r.Phases[i]
		if i > furthest {
			furthest, since = i, time.Now()
		}
		attempt := failures[p.Stage] + 1
		r.Report(trace.Event{Stage: p.Stage, Kind: trace.Begin, Attempt: attempt})
		message, err := r.attempt(ctx, p, since)
		if err == nil {
			r.Report(trace.Event{Stage: p.Stage, Kind: trace.End, Attempt: attempt, Message: message})
			i++
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failures[p.Stage] = attempt
		if err := r.failed(ctx, p, attempt, err, since); err != nil {
			return err
		}
		if attempt%failuresBack == 0 {
			i = r.back(i)
		}
	}
	return nil
}

// attempt runs p once. While p runs, it reports that every stillEvery. It returns errStuck if p still runs when the
// machine has to be rebooted.
func (r *Runner) attempt(ctx context.Context, p Phase, since time.Time) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		message string
		err     error
	}
	done := make(chan result, 1)
	begun := time.Now()
	go func() {
		message, err := guarded(ctx, p)
		done <- result{message, err}
	}()
	still := time.NewTicker(stillEvery)
	defer still.Stop()
	for {
		select {
		case res := <-done:
			return res.message, res.err
		case <-still.C:
			if r.overdue(since) {
				return "", errStuck
			}
			r.Report(trace.Event{Stage: p.Stage, Kind: trace.Info, Hint: p.Hint,
				Message: fmt.Sprintf("still trying after %s", time.Since(begun).Round(time.Second))})
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// guarded runs p and turns a panic into an error. If PID 1 dies, the kernel panics and nothing is reported.
func guarded(ctx context.Context, p Phase) (message string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &problem.Problem{Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack()),
				Hint: "this is a fault of Pando: please report it with this text"}
		}
	}()
	return p.Run(ctx)
}

// failed reports a failure and waits before the next attempt. It returns errStuck when it is time to give up.
func (r *Runner) failed(ctx context.Context, p Phase, attempt int, err error, since time.Time) error {
	hint := problem.HintOf(err)
	if hint == "" {
		hint = p.Hint
	}
	wait, end := r.pause(attempt, err, since)
	forever := end && r.limit() < 0
	next := fmt.Sprintf("trying again in %s", wait.Round(100*time.Millisecond))
	switch {
	case forever:
		next = waiting
	case end:
		next = fmt.Sprintf("rebooting in %s", wait)
	}
	r.Report(trace.Event{Stage: p.Stage, Kind: trace.Fail, Attempt: attempt, Hint: hint,
		Message: err.Error(), Attrs: map[string]string{"next": next}})
	if forever {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := backoff.Sleep(ctx, wait); err != nil {
		return err
	}
	if end {
		return errStuck
	}
	return nil
}

// pause returns how long to wait after a failure, and whether the machine is rebooted then. The last attempt begins
// when the boot's time is over, not up to a back-off later.
func (r *Runner) pause(attempt int, err error, since time.Time) (wait time.Duration, end bool) {
	limit := r.limit()
	left := limit - time.Since(since)
	switch {
	case errors.Is(err, errStuck), limit > 0 && left <= 0:
		return rebootDelay, true
	case problem.IsFinal(err):
		return r.finalWait(), true
	case limit > 0:
		return min(backoff.Delay(attempt), left), false
	}
	return backoff.Delay(attempt), false
}

func (r *Runner) limit() time.Duration {
	if d := r.RebootAfter(); d != 0 {
		return d
	}
	return DefaultRebootAfter
}

func (r *Runner) overdue(since time.Time) bool {
	d := r.limit()
	return d > 0 && time.Since(since) >= d
}

func (r *Runner) finalWait() time.Duration {
	if d := r.limit(); d > 0 && d < finalDelay {
		return d
	}
	return finalDelay
}

// back returns the index of the phase to continue from after repeated failures of phase i.
func (r *Runner) back(i int) int {
	for j := range i {
		if r.Phases[j].Stage == r.Phases[i].Back {
			return j
		}
	}
	return i
}
