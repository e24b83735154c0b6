package storm

import (
	"cmp"
	"errors"

	"pando/internal/bench"
)

// failedRun is the error of a run that is kept in the results although a requirement was not met. The next runs still
// follow, and the command fails at its end.
type failedRun struct{ err error }

func (f *failedRun) Error() string { return f.err.Error() }

// Unwrap returns the requirement's error.
func (f *failedRun) Unwrap() error { return f.err }

// fail records the error of each node.
func (r *stormRun) fail(errs []error) error {
	for i, err := range errs {
		if err != nil {
			r.Each[i].Failed = bench.Reason(err)
		}
	}
	return errors.Join(errs...)
}

// failed reports whether a node failed to boot that should have booted.
func (r stormRun) failed() bool { return r.missing() > 0 }

// missing counts the nodes, except killed ones, that did not boot or read wrong bytes.
func (r stormRun) missing() (n int) {
	for _, x := range r.Each {
		if x.Failed != "" {
			n++
		}
	}
	return n
}

// worse orders the runs of a fault: those with more failed nodes first, then slower ones. A discarded run in which no
// node failed comes last.
func worse(a, b stormRun) int {
	left := func(r stormRun) int {
		if r.Discarded && !r.failed() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(left(a), left(b)), cmp.Compare(b.missing(), a.missing()), cmp.Compare(b.Last, a.Last))
}

// faultRuns returns one run for each fault, in the order in which they were made. It is the worst run, so that a
// repetition cannot hide a failure.
func (r *report) faultRuns() (out []stormRun) {
	for i, x := range r.Faults {
		if r.faultRun(x.Fault) == i {
			out = append(out, x)
		}
	}
	return out
}

// faultRun returns the index of the run that represents a fault; -1: it was not measured.
func (r *report) faultRun(name string) int {
	worst := -1
	for i, x := range r.Faults {
		if x.Fault == name && (worst < 0 || worse(x, r.Faults[worst]) < 0) {
			worst = i
		}
	}
	return worst
}
