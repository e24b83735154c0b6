package storm

import (
	"cmp"
	"errors"

	"pando/internal/bench"
)

// failedRun is a run that was made and is kept, of which something that has to be did not come true. Others follow
// it, and the command fails at its end.
type failedRun struct{ err error }

func (f *failedRun) Error() string { return f.err.Error() }

// Unwrap is what was wrong.
func (f *failedRun) Unwrap() error { return f.err }

// fail notes what was wrong with each node.
func (r *stormRun) fail(errs []error) error {
	for i, err := range errs {
		if err != nil {
			r.Each[i].Failed = bench.Reason(err)
		}
	}
	return errors.Join(errs...)
}

// failed reports whether a node did not boot that should have.
func (r stormRun) failed() bool { return r.missing() > 0 }

// missing is how many of the nodes that were not killed have not booted, or read what they should not have.
func (r stormRun) missing() (n int) {
	for _, x := range r.Each {
		if x.Failed != "" {
			n++
		}
	}
	return n
}

// worse orders the runs of a fault: first the one that the most nodes failed in, then the slowest, and last one
// that was discarded.
func worse(a, b stormRun) int {
	left := func(r stormRun) int {
		if r.Discarded && !r.failed() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(left(a), left(b)), cmp.Compare(b.missing(), a.missing()), cmp.Compare(b.Last, a.Last))
}

// faultRuns are those that stand for their faults, in the order in which they were made: of each the worst, so that
// trying again does not hide it.
func (r *report) faultRuns() (out []stormRun) {
	for i, x := range r.Faults {
		if r.faultRun(x.Fault) == i {
			out = append(out, x)
		}
	}
	return out
}

// faultRun is the run that stands for a fault; -1: it was not measured.
func (r *report) faultRun(name string) int {
	worst := -1
	for i, x := range r.Faults {
		if x.Fault == name && (worst < 0 || worse(x, r.Faults[worst]) < 0) {
			worst = i
		}
	}
	return worst
}
