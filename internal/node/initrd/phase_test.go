package initrd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/trace"
)

// script runs phases on a fake clock and returns what the runner reported, one line for each event.
func script(t *testing.T, limit time.Duration, phases ...Phase) (log []string, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		r := Runner{Phases: phases, RebootAfter: func() time.Duration { return limit }, Report: func(e trace.Event) {
			line := fmt.Sprintf("%v %s %s %d", time.Since(begun), e.Stage, e.Kind, e.Attempt)
			for _, s := range []string{e.Message, e.Hint, e.Attrs["next"]} {
				if s != "" {
					line += " | " + s
				}
			}
			log = append(log, line)
		}}
		err = r.Run(t.Context())
		took = time.Since(begun)
	})
	return log, took, err
}

// failing returns a phase that fails n times and then succeeds.
func failing(stage, back trace.Stage, n int, err error) Phase {
	return Phase{Stage: stage, Back: back, Hint: "mend " + string(stage), Run: func(context.Context) (string, error) {
		if n--; n >= 0 {
			return "", err
		}
		return "fine", nil
	}}
}

func wantLines(t *testing.T, got []string, want string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.TrimSpace(want); g != w {
		t.Errorf("events:\n%s\nwant:\n%s", g, w)
	}
}

func TestRunnerInOrder(t *testing.T) {
	log, _, err := script(t, 0, failing(trace.Modules, "", 0, nil), failing(trace.Link, "", 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, log, `
0s modules begin 1
0s modules end 1 | fine
0s link begin 1
0s link end 1 | fine`)
}

func TestRunnerRetriesWithBackoff(t *testing.T) {
	log, _, err := script(t, 0, failing(trace.Register, "", 2, errors.New("nobody answers")))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, log, `
0s hello begin 1
0s hello fail 1 | nobody answers | mend hello | trying again in 500ms
500ms hello begin 2
500ms hello fail 2 | nobody answers | mend hello | trying again in 1s
1.5s hello begin 3
1.5s hello end 3 | fine`)
}

func TestRunnerGoesBack(t *testing.T) {
	log, _, err := script(
		t,
		0,
		failing(trace.Address, "", 0, nil),
		failing(trace.Register, trace.Address, 3, errors.New("no")),
	)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, log[len(log)-4:], `
3.5s address begin 1
3.5s address end 1 | fine
3.5s hello begin 4
3.5s hello end 4 | fine`)
}

func TestRunnerRebootsWhenStuck(t *testing.T) {
	log, took, err := script(t, 5*time.Minute, failing(trace.Address, "", 1e6, &problem.Problem{
		Err: errors.New("no answer"), Tried: "eth0", Hint: "look at the cable"}))
	if !errors.Is(err, errStuck) {
		t.Fatalf("error %v, want errStuck", err)
	}
	if want := 5*time.Minute + rebootDelay; took != want {
		t.Errorf("gave up after %v, want %v", took, want)
	}
	last := log[len(log)-1]
	if want := "no answer (tried: eth0) | look at the cable | rebooting in 10s"; !strings.HasSuffix(last, want) {
		t.Errorf("last event %q, want suffix %q", last, want)
	}
}

func TestRunnerNeverReboots(t *testing.T) {
	_, took, err := script(t, -1, failing(trace.Address, "", 1000, errors.New("no")))
	if err != nil || took < 8*time.Hour {
		t.Errorf("ended after %v with %v, want about 8 h of tries and then success", took, err)
	}
}

func TestRunnerFinal(t *testing.T) {
	log, took, err := script(
		t,
		0,
		failing(trace.Register, "", 9, &problem.Problem{Err: errors.New("token already used"), Final: true}),
	)
	if !errors.Is(err, errStuck) || took != finalDelay {
		t.Errorf("ended after %v with %v, want errStuck after %v", took, err, finalDelay)
	}
	wantLines(t, log, `
0s hello begin 1
0s hello fail 1 | token already used | mend hello | rebooting in 1m0s`)
}

// A machine that must never reboot does not reboot after a failure that no retry can fix.
func TestRunnerFinalNeverReboots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		var last trace.Event
		r := Runner{
			Phases: []Phase{
				failing(trace.Register, "", 9, &problem.Problem{Err: errors.New("token already used"), Final: true}),
			},
			Report:      func(e trace.Event) { last = e },
			RebootAfter: func() time.Duration { return -1 },
		}
		if err := r.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v, want to wait until the context ends", err)
		}
		if last.Attempt != 1 || last.Attrs["next"] != waiting {
			t.Errorf("last event %+v, want the first failure and %q", last, waiting)
		}
	})
}

// A panic is a failure of its phase like any other.
func TestRunnerPanic(t *testing.T) {
	calls := 0
	log, _, err := script(t, 0, Phase{Stage: trace.Modules, Run: func(context.Context) (string, error) {
		if calls++; calls == 1 {
			panic("no such driver")
		}
		return "fine", nil
	}})
	if err != nil || len(log) != 4 || !strings.HasPrefix(log[1], "0s modules fail 1 | panic: no such driver\n") ||
		!strings.Contains(log[1], "phase_test.go") || !strings.HasSuffix(log[3], "modules end 2 | fine") {
		t.Errorf("ended with %v after\n%s", err, strings.Join(log, "\n"))
	}
}

// A phase that hangs in the kernel cannot be stopped. It is reported, and the machine reboots.
func TestRunnerHang(t *testing.T) {
	log, took, err := script(t, time.Minute, Phase{Stage: trace.Root, Hint: "is the server there?",
		Run: func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}})
	if !errors.Is(err, errStuck) || took != time.Minute+rebootDelay {
		t.Errorf("ended after %v with %v, want errStuck after 1m10s", took, err)
	}
	wantLines(t, log, `
0s root begin 1
15s root info 0 | still trying after 15s | is the server there?
30s root info 0 | still trying after 30s | is the server there?
45s root info 0 | still trying after 45s | is the server there?
1m0s root fail 1 | boot is stuck | is the server there? | rebooting in 10s`)
}

func TestRunnerCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := Runner{Phases: []Phase{failing(trace.Link, "", 9, errors.New("no"))}, Report: func(trace.Event) {},
			RebootAfter: func() time.Duration { return 0 }}
		if err := r.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

// After a failed attempt, later phases see the result of the attempt before.
func TestKeep(t *testing.T) {
	var up Link
	for _, x := range []struct {
		name string
		err  error
		want string
	}{{"a", nil, "a"}, {"b", errors.New("no"), "a"}, {"c", nil, "c"}} {
		text, err := keep(&up)(Link{Up: []link.NIC{{Name: x.name}}}, "text", x.err)
		if text != "text" || !errors.Is(err, x.err) || up.Up[0].Name != x.want {
			t.Errorf("%s: %q, %v, kept %+v", x.name, text, err, up)
		}
	}
}
