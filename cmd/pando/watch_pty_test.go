package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/registry"
	"pando/internal/trace"
)

// siteNodes is the number of nodes of the watched site.
const siteNodes = 10_000

// largeSite starts a server with many nodes, most of them booted, and returns its data directory.
func largeSite(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "crowd") // short: there is a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, agent := filepath.Join(dir, "d"), filepath.Join(dir, "agent")
	if err := errors.Join(os.Mkdir(data, 0o755), os.WriteFile(agent, []byte("\x7fELF not really a "+
		"program"), 0o755), seedSite(t.Context(), data)); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(
		"pando",
		"--data",
		data,
		"serve",
		"--dhcp",
		"off",
		"--http",
		"127.0.0.1:0",
		"--control",
		"127.0.0.1:0",
		"--tftp",
		"off",
		"--dashboard",
		"off",
		"--agent",
		agent,
	)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
	client := api.OverSocket(cmdenv.SocketPath(data))
	defer client.Close()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err := client.Status(t.Context()); err == nil {
			return data
		} else if time.Since(begun) > time.Minute {
			told, _ := os.ReadFile(log.Name())
			t.Fatalf("the server does not answer: %v\n%s", err, told)
		}
	}
}

// seedSite makes nodes: every hundredth boots, and two have failed.
func seedSite(ctx context.Context, data string) error {
	if _, err := identity.Open(filepath.Join(data, "keys")); err != nil {
		return err
	}
	r, err := registry.Open(ctx, registry.Options{Dir: data})
	if err != nil {
		return err
	}
	now := time.Now()
	var events []trace.Event
	err = r.Update(ctx, func(tx *registry.Tx) error {
		var failed error
		for g := range 40 {
			room := fleet.Group{Name: fmt.Sprintf("room%02d", g+1), Image: "lab", Follow: true}
			failed = errors.Join(failed, tx.CreateGroup(room))
		}
		for i := range siteNodes {
			mac := fleet.MAC{0x52, 0x54, 1, byte(i >> 16), byte(i >> 8), byte(i)}
			name := fmt.Sprintf("pc%05d", i+1)
			b := registry.Boot{
				ID:      fleet.BootID(fmt.Sprintf("%016x", i+1)),
				MAC:     mac,
				Node:    name,
				Started: now.Add(-time.Minute),
			}
			failed = errors.Join(
				failed,
				tx.CreateNode(fleet.Node{Name: name, MACs: []fleet.MAC{mac}, State: fleet.Adopted,
					Group: fmt.Sprintf("room%02d", i%40+1), Created: now, Seen: now}),
				tx.CreateBoot(b),
			)
			e := trace.Event{
				Time:  now.Add(-time.Minute + 40*time.Second),
				Boot:  b.ID,
				Node:  name,
				MAC:   mac,
				Stage: trace.Booted,
				Kind:  trace.End,
				Bytes: map[string]int64{trace.SourceK: 12_000_000, "server": 2_000_000, "peer": 19_000_000},
			}
			switch {
			case i%5000 == 77:
				e.Stage, e.Kind, e.Message = trace.Manifest, trace.Fail, "fetch manifest: 404 Not Found"
			case i%100 == 5:
				e.Stage, e.Kind = trace.Root, trace.Begin
			}
			events = append(events, e)
		}
		return failed
	})
	if err == nil {
		_, err = r.Append(ctx, events...)
	}
	return errors.Join(err, r.Close())
}

// TestWatchTenThousand: a terminal of 80 by 24 and ten thousand nodes. Problems come first, keys scroll, the table is
// redrawn at once after a resize, and the terminal is restored at the end. `pando status` fits the screen, too.
func TestWatchTenThousand(t *testing.T) {
	data := largeSite(t)
	begun := time.Now()
	p := runOnPTY(t, 80, 24, "pando", "--data", data, "watch")
	lines, _ := p.shows(
		"the table",
		func(l []string) bool { return strings.Contains(l[0], " booted, ") && strings.Contains(l[21], "q ends") },
	)
	first := time.Since(begun)
	if !strings.Contains(lines[0], "9898 booted, 100 booting, 2 failed") || !strings.HasPrefix(lines[2], "pc00078") ||
		!strings.HasPrefix(lines[3], "pc05078") ||
		!strings.Contains(lines[2], "! manifest") ||
		!strings.HasPrefix(lines[4], "pc00006") ||
		lines[21] != "1 to 19 of 10000; arrows and page keys turn to others, q ends" {
		t.Errorf("the table:\n%s", strings.Join(lines, "\n"))
	}
	if !p.screen.hidden {
		t.Error("the cursor stands in the table")
	}
	var keys []time.Duration
	key := func(pressed, last, shown string) {
		t.Helper()
		p.press(pressed)
		_, took := p.shows(
			fmt.Sprintf("%q", pressed),
			func(l []string) bool { return strings.HasPrefix(l[21], last) && strings.HasPrefix(l[2], shown) },
		)
		keys = append(keys, took)
	}
	key("\x1b[B", "2 to 20 of", "pc05078")
	key("j", "3 to 21 of", "pc00006")
	key("\x1b[6~", "22 to 40 of", "pc01906")
	key("x?\x1b[A", "21 to 39 of", "pc01806")
	key("\x1b[F", "9982 to 10000 of", "pc09982")
	key("\x1b[5~", "9963 to 9981 of", "pc09963")
	key("g", "1 to 19 of", "pc00078")

	p.resize(132, 40)
	lines, wide := p.shows("a larger window", func(l []string) bool { return strings.HasPrefix(l[37], "1 to 35 of") })
	if !strings.Contains(lines[2], "fetch manifest: 404 Not Found") ||
		!strings.Contains(lines[4], "initrd 12.0M peer 19.0M server 2.0M") {
		t.Errorf("in a larger window:\n%s", strings.Join(lines, "\n"))
	}
	p.resize(60, 12)
	_, narrow := p.shows("a smaller window", func(l []string) bool { return strings.HasPrefix(l[9], "1 to 7 of") })
	p.press("q")
	if err := p.ended(); err != nil {
		t.Errorf("q: %v", err)
	}
	if p.screen.hidden {
		t.Error("the cursor does not come back")
	}
	slices.Sort(keys)
	usual := keys[len(keys)/2] // the median, because a busy machine delays some
	t.Logf(
		"%d nodes: the first table after %d ms; a key within %d ms, another size within %d ms",
		siteNodes,
		first.Milliseconds(),
		usual.Milliseconds(),
		min(wide, narrow).Milliseconds(),
	)
	if usual > 500*time.Millisecond || min(wide, narrow) > 500*time.Millisecond {
		t.Error("somebody who presses a key waits for the next tick")
	}
	interrupted(t, data)
	statusFits(t, data)
}

// interrupted ends the table by Ctrl-C.
func interrupted(t *testing.T, data string) {
	p := runOnPTY(t, 80, 24, "pando", "--data", data, "watch")
	p.shows("the table", func(l []string) bool { return strings.Contains(l[21], "q ends") })
	p.press("\x03")
	var code *exec.ExitError
	if err := p.ended(); !errors.As(err, &code) || code.ExitCode() != exitcode.Interrupted {
		t.Errorf("Ctrl-C: %v", err)
	}
	if p.screen.hidden {
		t.Error("the cursor does not come back after Ctrl-C")
	}
}

// statusFits checks the status of a site with forty groups, some failures, and boots.
func statusFits(t *testing.T, data string) {
	begun := time.Now()
	p := runOnPTY(t, 80, 24, "pando", "--data", data, "status")
	if err := p.ended(); err != nil {
		t.Fatal(err)
	}
	lines := p.screen.lines()
	t.Logf("pando status after %d ms:\n%s", time.Since(begun).Milliseconds(), strings.Join(lines, "\n"))
	if !strings.HasPrefix(lines[0], "server") || lines[23] != "" ||
		!strings.Contains(strings.Join(lines, "\n"), "2 failed:") ||
		p.screen.over != "" {
		t.Errorf("the status does not fit: %q", p.screen.over)
	}
}
