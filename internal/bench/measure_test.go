package bench

import (
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	before, after := Ticks{busy: 100, interrupts: 10, all: 1000}, Ticks{busy: 260, interrupts: 30, all: 1200}
	l := before.Load(after, 0.8)
	if l.Busy != 0.8 || l.Own != 0.4 || l.Interrupts != 0.1 || math.Abs(l.Others()-0.3) > 1e-9 {
		t.Errorf("got %+v, others %g", l, l.Others())
	}
	if !l.Foreign() || !strings.Contains(l.TooBusy(), "30 % of it with other programs") {
		t.Errorf("half of it was not the lab's: %s", l.TooBusy())
	}
	l.Own = 0.7
	if l.Foreign() || l.TooBusy() == "" || strings.Contains(l.TooBusy(), "other") {
		t.Errorf("all of it was the lab's: %s", l.TooBusy())
	}
	if l := (Load{Busy: 0.7}); l.TooBusy() != "" {
		t.Error("70 % is not more than 70 %")
	}
}

// The processor time of child processes is included.
func TestAccount(t *testing.T) {
	for name, x := range map[string]struct {
		first bool
		want  string
	}{
		"12:cpu,cpuacct:/a/b\n3:memory:/m\n0::/c\n": {true, "/a/b"},
		"0::/user.slice\n":                          {false, "/user.slice"},
		"1:memory:/m\n":                             {true, "/"},
	} {
		if got := groupOf(name, x.first); got != x.want {
			t.Errorf("%q: got %q, want %q", name, got, x.want)
		}
	}
	for text, want := range map[string]float64{"1500000000\n": 1.5, "usage_usec 2500000\nuser_usec 1\n": 2.5} {
		if got, err := parseUsed([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %g, %v", text, got, err)
		}
	}
	if _, err := parseUsed([]byte("user_usec 5\n")); err == nil {
		t.Error("a file without the figure was understood")
	}
	if os.Geteuid() != 0 {
		t.Skip("control groups need root")
	}
	a, err := OpenAccount("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(a.group); err == nil {
			t.Errorf("%s was left", a.group)
		}
	}()
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Used(); err != nil || got <= 0 {
		t.Errorf("used %g s, %v", got, err)
	}
}

func TestParseTicks(t *testing.T) {
	a, err := parseTicks([]byte("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseTicks([]byte("cpu  160 0 60 810 60 0 5 5 0 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Load(b, 0.1); got.Busy != 0.8 || got.Own != 0.1 || got.Interrupts != 0.05 {
		t.Errorf("80 of 100 ticks were busy, 5 with interrupts: got %+v", got)
	}
	for _, text := range []string{"", "cpu 1 2 3", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8 9"} {
		if _, err := parseTicks([]byte(text)); err == nil {
			t.Errorf("%q was understood", text)
		}
	}
}

// The cost of a process is that of its own clock, also for another process, and more precise than a hundredth of a
// second.
func TestProcessCost(t *testing.T) {
	before, memory, err := ProcessCost(os.Getpid())
	if err != nil || memory < 1<<20 {
		t.Fatalf("%g s, %d bytes, %v", before, memory, err)
	}
	sum := 0
	for i := range 1 << 20 {
		sum += i
	}
	after, _, err := ProcessCost(os.Getpid())
	if err != nil || after <= before || sum == 0 {
		t.Errorf("from %g to %g s, %v", before, after, err)
	}
	if cpu, _, err := ProcessCost(os.Getppid()); err != nil || cpu <= 0 {
		t.Errorf("the parent took %g s, %v", cpu, err)
	}
	if _, _, err := ProcessCost(1 << 30); err == nil {
		t.Error("a process that is not there has a cost")
	}
}

func TestSessionOf(t *testing.T) {
	if got := sessionOf("12 (a) b) S 1 12 7 0 -1"); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	if sessionOf("12 (a) S") != 0 {
		t.Error("half a line has a session")
	}
	cpu, memory, err := SessionCost(os.Getpid())
	if err != nil || cpu < 0 || memory == 0 {
		t.Errorf("this process: %g s, %d bytes, %v", cpu, memory, err)
	}
}
