package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// endThreads ends threads in the way of threads that were in a namespace: with a goroutine that was locked to them.
func endThreads() {
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			runtime.LockOSThread()
			time.Sleep(time.Millisecond)
		})
	}
	all.Wait()
}

// A program that ends with its parent, as nbdkit does, ends with this process and not with one of its threads.
func TestProgramsOutliveThreads(t *testing.T) {
	dir := t.TempDir()
	var all []*Program
	var starting sync.WaitGroup
	var mu sync.Mutex
	for i := range 20 {
		starting.Go(func() {
			c := exec.Command("sleep", "60")
			c.SysProcAttr = &unix.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGTERM}
			p, err := StartProgram(t.Context(), c, filepath.Join(dir, string(rune('a'+i))), func() bool { return true })
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, p)
		})
	}
	starting.Wait()
	for range 5 {
		endThreads()
	}
	time.Sleep(50 * time.Millisecond)
	for _, p := range all {
		select {
		case <-p.done:
			t.Errorf("one has ended: %v", p.ended())
		default:
		}
		p.Stop()
	}
}

// The error about a program that ended too early names it, its status, and its last output.
func TestProgramThatEnds(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	never := func() bool { return false }
	_, err := StartProgram(
		t.Context(),
		exec.Command("sh", "-c", "echo one; echo no such plugin >&2; exit 3"),
		log,
		never,
	)
	if err == nil ||
		err.Error() != "sh ended at once (exit status 3); its log is "+log+", which ends with: no such plugin" {
		t.Errorf("got %v", err)
	}
	_, err = StartProgram(t.Context(), exec.Command("true"), log, never)
	if err == nil || err.Error() != "true ended at once (exit status 0); its log is "+log+", which is empty" {
		t.Errorf("got %v", err)
	}
	if _, err = StartProgram(t.Context(), exec.Command("/no/such/program"), log, never); !errors.Is(
		err,
		os.ErrNotExist,
	) ||
		!strings.Contains(err.Error(), "start program") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	if _, err = StartProgram(ctx, exec.Command("sleep", "60"), log, never); err == nil || err.Error() != "too late" {
		t.Errorf("got %v", err)
	}
	p, err := StartProgram(t.Context(), exec.Command("true"), log, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if err := p.gone(errors.New("EOF")); !strings.HasPrefix(err.Error(), "true ended at once") ||
		!strings.HasSuffix(err.Error(), ": EOF") {
		t.Errorf("got %v", err)
	}
}

// A program in a namespace is called by its own name.
func TestProgramName(t *testing.T) {
	for want, c := range map[string]*exec.Cmd{
		"nbdkit": exec.Command("ip", "netns", "exec", "storm-1-2", "nbdkit", "--foreground"),
		"ip":     exec.Command("/sbin/ip", "link"),
		"nginx":  exec.Command("/usr/sbin/nginx")} {
		if got := programName(c); got != want {
			t.Errorf("%v: got %s, want %s", c.Args, got, want)
		}
	}
}
