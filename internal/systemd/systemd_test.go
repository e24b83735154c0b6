package systemd

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
)

// An incomplete account is not taken for a complete one, and systemd is asked again.
func TestSystemdTellsHalf(t *testing.T) {
	answers := map[string]string{"--property=UserspaceTimestampMonotonic": "UserspaceTimestampMonotonic=1000000\n" +
		"FinishTimestampMonotonic=9000000\nSystemState=running\n", "--state=failed": "x.service loaded failed " +
		"failed X\n"}
	systemctl := func(_ context.Context, args ...string) (string, error) {
		if out, ok := answers[args[1]]; ok {
			return out, nil
		}
		return "", errors.New("timed out")
	}
	if s, whole := Read(t.Context(), systemctl); s == nil || whole || s.Finish != 9*time.Second ||
		len(s.Failed) != 1 {
		t.Errorf("without units: %+v, whole %v", s, whole)
	}
	answers["--property=Id"] = "Id=multi-user.target\n"
	answers["*"] = "Id=a.service\nInactiveExitTimestampMonotonic=1000000\nActiveEnterTimestampMonotonic=3000000\n"
	if s, whole := Read(t.Context(), systemctl); s == nil || !whole || len(s.Units) != 1 {
		t.Errorf("with units: %+v, whole %v", s, whole)
	}
	answers["--property=UserspaceTimestampMonotonic"] = "FinishTimestampMonotonic=0\n"
	if s, whole := Read(t.Context(), systemctl); s != nil || whole {
		t.Errorf("before the end of the boot: %+v, whole %v", s, whole)
	}
}

func TestSwitchesOff(t *testing.T) {
	for jobs, want := range map[string]bool{
		"2021 systemd-poweroff.service start waiting\n2020 poweroff.target start waiting\n": true,
		"2021 systemd-reboot.service start waiting\n2020 reboot.target start waiting\n":     false,
		"": false,
	} {
		systemctl := func(context.Context, ...string) (string, error) { return jobs, nil }
		if got := SwitchesOff(t.Context(), systemctl); got != want {
			t.Errorf("%q: %v", jobs, got)
		}
	}
}

func TestSystemdFigures(t *testing.T) {
	text := "Id=a.service\nInactiveExitTimestampMonotonic=1000000\nActiveEnterTimestampMonotonic=3000000\n\n" +
		"Id=never.service\nInactiveExitTimestampMonotonic=0\nActiveEnterTimestampMonotonic=0\n\n" +
		"Id=b.mount\nInactiveExitTimestampMonotonic=1000000\nActiveEnterTimestampMonotonic=6000000\n\n" +
		"Id=late.service\nInactiveExitTimestampMonotonic=1\nActiveEnterTimestampMonotonic=99000000\n"
	want := []api.UnitTime{{Unit: "b.mount", Start: time.Second, Active: 6 * time.Second},
		{Unit: "a.service", Start: time.Second, Active: 3 * time.Second}}
	if got := worthKeeping(unitStarts(text, 10*time.Second), nil); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	chained := "Id=end.target\nAfter=a.service b.service " +
		"late.service\nInactiveExitTimestampMonotonic=9000000\nActiveEnterTimestampMonotonic=9000000\n\n" +
		"Id=a.service\nAfter=c.mount " +
		"gone.service\nInactiveExitTimestampMonotonic=6000000\nActiveEnterTimestampMonotonic=8000000\n\n" +
		"Id=b.service\nAfter=\nInactiveExitTimestampMonotonic=1000000\nActiveEnterTimestampMonotonic=7000000\n\n" +
		"Id=c.mount\nAfter=a.service\nInactiveExitTimestampMonotonic=2000000\nActiveEnterTimestampMonotonic=5000000\n\n" +
		"Id=late.service\nInactiveExitTimestampMonotonic=1\nActiveEnterTimestampMonotonic=99000000\n"
	units := unitStarts(chained, 10*time.Second)
	chain := critical(units, "end.target")
	if !reflect.DeepEqual(chain, []string{"end.target", "a.service", "c.mount"}) {
		t.Errorf("critical chain %v", chain)
	}
	kept := []string{}
	for _, u := range worthKeeping(units, chain) {
		kept = append(kept, fmt.Sprint(u.Unit, u.Chain))
	}
	if !reflect.DeepEqual(kept, []string{"b.servicefalse", "c.mounttrue", "a.servicetrue", "end.targettrue"}) {
		t.Errorf("kept %v", kept)
	}
	if got := critical(units, "no.target"); got != nil {
		t.Errorf("the chain of a target that is not there: %v", got)
	}
	if got := words("x.service loaded failed failed X\n\ny.mount loaded\n", 0, ""); !reflect.DeepEqual(
		got,
		[]string{"x.service", "y.mount"},
	) {
		t.Errorf("failed units %v", got)
	}
	if got := microseconds("infinity"); got != 0 {
		t.Errorf("a time that is no number: %v", got)
	}
}

// The account contains what `systemd-analyze blame` lists: a oneshot that ended before the boot was over, and a unit
// that failed in the end, count with their running time.
func TestOneshotsAreInTheAccount(t *testing.T) {
	text := "Id=slow.service\nInactiveExitTimestampMonotonic=5000000\nActiveEnterTimestampMonotonic=0\n" +
		"InactiveEnterTimestampMonotonic=50000000\n\n" +
		"Id=failed.service\nInactiveExitTimestampMonotonic=6000000\nActiveEnterTimestampMonotonic=0\n" +
		"InactiveEnterTimestampMonotonic=36000000\n\n" +
		"Id=again.service\nInactiveExitTimestampMonotonic=9000000\nActiveEnterTimestampMonotonic=1000000\n" +
		"InactiveEnterTimestampMonotonic=8000000\n\n" + // starting a second time
		"Id=end.target\nAfter=slow.service\nInactiveExitTimestampMonotonic=51000000\n" +
		"ActiveEnterTimestampMonotonic=51000000\nInactiveEnterTimestampMonotonic=0\n"
	units := unitStarts(text, time.Minute)
	got := worthKeeping(units, critical(units, "end.target"))
	want := []api.UnitTime{
		{Unit: "slow.service", Start: 5 * time.Second, Active: 50 * time.Second, Chain: true},
		{Unit: "failed.service", Start: 6 * time.Second, Active: 36 * time.Second},
		{Unit: "end.target", Start: 51 * time.Second, Active: 51 * time.Second, Chain: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Units that have ended are requested too; `systemctl show "*"` omits them.
func TestEndedUnitsAreAskedFor(t *testing.T) {
	asked := false
	systemctl := func(_ context.Context, args ...string) (string, error) {
		if args[1] == "*" {
			asked = slices.Contains(args, "--all") &&
				strings.Contains(args[len(args)-1], "InactiveEnterTimestampMonotonic")
		}
		return "FinishTimestampMonotonic=9000000\n", nil
	}
	if _, whole := Read(t.Context(), systemctl); !whole || !asked {
		t.Errorf("asked for all: %v, whole %v", asked, whole)
	}
}

func TestWaits(t *testing.T) {
	systemctl := func(context.Context, ...string) (string, error) {
		return "  71 dev-sdb.device  start running\n 2 multi-user.target start waiting\n" +
			" 90 slow.service start running\nNo jobs running.\n", nil
	}
	if got := Waits(t.Context(), systemctl); !slices.Equal(got, []string{"dev-sdb.device", "slow.service"}) {
		t.Errorf("waits for %v", got)
	}
}
