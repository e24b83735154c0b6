package power

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

// TestDecide checks the step for each action in each state.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		action Action
		state  State
		force  bool
		want   step
	}{
		{On, IsOff, false, powerOn}, {On, IsOn, false, nothing}, {On, Unknown, false, powerOn},
		{On, IsOn, true, nothing},
		{Off, IsOff, false, nothing}, {Off, IsOn, false, shutDown}, {Off, IsOn, true, cut},
		{Off, Unknown, false, shutDown}, {Off, IsOff, true, nothing},
		{Cycle, IsOff, false, powerOn}, {Cycle, IsOn, false, restart}, {Cycle, Unknown, false, restart},
		{Status, IsOn, true, nothing}, {Status, IsOff, false, nothing},
	} {
		if got := decide(c.action, c.state, c.force); got != c.want {
			t.Errorf("%s of what is %s, force %v: %q, want %q", c.action, c.state, c.force, got, c.want)
		}
	}
}

func TestSweepDecision(t *testing.T) {
	for want, all := range map[Action][]Seen{
		"": {{}, {Wanted: true, Quiet: time.Minute}, {Wanted: false, Quiet: time.Hour},
			{Wanted: true, Quiet: time.Minute, State: IsOff}},
		On: {{Wanted: true, Quiet: time.Hour, State: IsOff}, {Wanted: true, Quiet: time.Hour},
			{Wanted: true, Quiet: GivenUp, State: Unknown}},
		Cycle: {{Wanted: true, Quiet: time.Hour, State: IsOn}},
	} {
		for _, s := range all {
			if got := Sweep(s); got != want {
				t.Errorf("%+v: %q, want %q", s, got, want)
			}
		}
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := "#!/bin/sh\necho $PANDO_NODE $PANDO_ACTION $PANDO_MACS $PANDO_PASSWORD $PANDO_FORCE >>" + log +
		"\ncase $PANDO_ACTION in cycle) echo the relay is stuck >&2; exit 3;; status) echo asked; echo off;; on) " +
		"sleep ${SLOW:-0};; esac\n"
	path := filepath.Join(dir, "relay")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := Switch{Find: func(name string) (string, error) {
		if name != "relay" {
			return "", errors.New("no such program")
		}
		return path, nil
	}}
	r := Request{Node: "pc001", To: fleet.PowerTo{Method: fleet.PowerCommand, Command: "relay"}, Password: "sesame",
		MACs: []fleet.MAC{{2, 0, 0, 0, 0, 1}}}
	do := func(a Action) (State, error) {
		r.Action = a
		return s.Do(t.Context(), r)
	}
	if state, err := do(On); err != nil || state != Unknown {
		t.Error(state, err)
	}
	if state, err := do(Status); err != nil || state != IsOff {
		t.Error(state, err)
	}
	if _, err := do(Cycle); err == nil || !strings.Contains(err.Error(), "exit status 3: the relay is stuck") {
		t.Error(err)
	}
	if got, _ := os.ReadFile(log); string(
		got,
	) != "pc001 on 02:00:00:00:00:01 sesame false\npc001 status 02:00:00:00:00:01 sesame false\npc001 cycle "+
		"02:00:00:00:00:01 sesame false\n" {
		t.Errorf("it was told %q", got)
	}
	t.Setenv("SLOW", "60")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r.Action = On
	if _, err := s.Do(ctx, r); err == nil {
		t.Error("a program that hangs was waited for")
	}
	r.To.Command = "other"
	if _, err := s.Do(t.Context(), r); err == nil || !strings.Contains(err.Error(), "no such program") {
		t.Error(err)
	}
}

func TestNotFromHere(t *testing.T) {
	if _, err := (Switch{}).Do(t.Context(), Request{To: fleet.PowerTo{Method: fleet.PowerNone}}); !errors.Is(
		err,
		ErrNone,
	) {
		t.Error(err)
	}
	for _, a := range []Action{Off, Cycle} {
		if _, err := (Switch{}).Do(t.Context(),
			Request{Action: a, To: fleet.PowerTo{Method: fleet.PowerWOL}}); !errors.Is(
			err,
			ErrAgent,
		) {
			t.Error(a, err)
		}
	}
}
