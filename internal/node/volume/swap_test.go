package volume

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/nbd"
)

// During an outage nothing is swapped, and afterwards as before, even if the process was restarted. Repeated outages
// do not lose the kernel's original setting.
func TestSwapOutage(t *testing.T) {
	dir := t.TempDir()
	sysctl := filepath.Join(dir, "sysctl")
	is := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(sysctl); err != nil || string(b) != want {
			t.Fatalf("swappiness is %q, %v; want %q", b, err, want)
		}
	}
	if err := os.WriteFile(sysctl, []byte("60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s := newSwapKeeping(dir, sysctl, log)
	s.back()
	is("60\n")
	s.away()
	is("0")
	s.away()
	s = newSwapKeeping(dir, sysctl, log) // the process was killed
	s.away()
	is("0")
	s.back()
	is("60")
	newSwapKeeping(dir, sysctl, log).back()
	is("60")
	s.away()
	s.back()
	is("60")

	var none *swapKeeping // a state volume
	none.away()
	none.asked("a")
	none.back()
	is("60")
}

// Swap space in use is requested from its server, even after a restart of the process. Before that, any server will
// do.
func TestSwapServer(t *testing.T) {
	dir, all := t.TempDir(), []string{"https://a", "https://b"}
	s := newSwapKeeping(dir, filepath.Join(dir, "sysctl"), slog.New(slog.DiscardHandler))
	s.asked("https://b")
	for _, s := range []*swapKeeping{s, newSwapKeeping(dir, "", s.log)} {
		if got := s.ask(all, true); !slices.Equal(got, []string{"https://b"}) {
			t.Errorf("who is asked for what is in use: %v", got)
		}
		if got := s.ask(all, false); !slices.Equal(got, all) {
			t.Errorf("who is asked for a fresh one: %v", got)
		}
	}
	var none *swapKeeping
	if got := none.ask(all, true); !slices.Equal(got, all) {
		t.Errorf("who is asked for a volume with state: %v", got)
	}
}

// Swap space is lost only if a server says so. An outage does not lose it, and unused swap space cannot be lost.
func TestSwapIsNotLost(t *testing.T) {
	s := newSwapKeeping(t.TempDir(), "", slog.New(slog.DiscardHandler))
	gone := &control.Refused{Status: 404, Err: &api.Error{Code: api.NotFound}}
	for _, x := range []struct {
		s        *swapKeeping
		attached bool
		err      error
	}{{s, true, errors.New("no route to host")}, {s, true, &control.Refused{Status: 404, Err: nil}},
		{s, true, &control.Refused{Status: 409, Err: &api.Error{Code: api.Conflict}}},
		{s, false, gone}, {nil, true, gone}} {
		if err := x.s.lost(nbd.KernelDevice{Index: 1 << 20}, x.attached, x.err); err != x.err {
			t.Errorf("%v is taken for a loss: %v", x.err, err)
		}
	}
}

// All pages of a locked file are locked.
func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 300<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	before := lockedMemory(t)
	if err := lockFile(path); err != nil {
		t.Fatal(err)
	}
	if got := lockedMemory(t) - before; got != 300 {
		t.Errorf("%d kB are locked, want 300", got)
	}
	if lockFile(path+".none") == nil {
		t.Error("a file that is not there was locked")
	}
}

// lockedMemory returns how many kB of this process are locked.
func lockedMemory(t *testing.T) (kb int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if n, err := fmt.Sscanf(line, "VmLck: %d kB", &kb); n == 1 && err == nil {
			return kb
		}
	}
	t.Fatal("no VmLck")
	return 0
}
