package boot

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/identity"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// looked are the files whose checksums are compared.
var looked = []string{"/usr/bin/bash", "/usr/lib/systemd/systemd", "/usr/bin/perl", "/usr/lib/os-release",
	"/usr/sbin/sshd", "/var/lib/dpkg/status"}

// content returns the root of the version that a node runs, read from the store.
func (s *site) content(name string) *testkit.Content {
	s.t.Helper()
	n, err := s.API.Node(s.t.Context(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := testkit.OpenContent(s.t.Context(), s.Config.Data, n.Running)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// prove checks a node from inside, and its timeline.
func (s *site) prove(n node, g *testkit.Guest) {
	s.t.Helper()
	s.proveRoot(n, g)
	s.proveTimeline(n)
}

// proveRoot is the part of prove about the running system.
func (s *site) proveRoot(n node, g *testkit.Guest) {
	s.t.Helper()
	s.proveReads(n, g)
	s.noErrors(n, g)
	s.lookInside(n, g)
}

// proveReads checks that the node is itself, and that files have the image's content.
func (s *site) proveReads(n node, g *testkit.Guest) {
	s.t.Helper()
	record, err := s.API.Node(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	proof, err := testkit.Prove(ctx, g, n.name, record.Desired, s.content(n.name), looked)
	if err == nil {
		err = proof.Err()
	}
	if err != nil {
		s.t.Errorf("%s: %v", n.name, err)
	}
	if record.Status == nil || record.Status.Rejected != 0 {
		s.t.Errorf("%s: status %+v, expected one without rejected objects", n.name, record.Status)
	}
}

// proveTimeline expects a timeline from the firmware's first packet on, and systemd's report.
func (s *site) proveTimeline(n node) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	if _, err := s.WaitNode(ctx, n.name,
		func(n api.Node) bool { return n.Status != nil && n.Status.Systemd != nil }); err != nil {
		s.t.Errorf("no figures of systemd: %v", err)
	}
	boot, err := s.API.NodeBoot(ctx, n.name)
	if err == nil {
		err = errors.Join(wholeTimeline(boot), systemdFigures(boot))
	}
	if err != nil {
		s.t.Errorf("%s: %v", n.name, err)
	}
}

// lookInside checks the overlay and the identity of a node.
func (s *site) lookInside(n node, g *testkit.Guest) {
	s.t.Helper()
	keys, err := identity.Open(filepath.Join(s.Config.Data, "keys"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, look := range []struct{ what, command, want string }{
		// docs/adr/0001-overlay-options.md
		{"overlay's options",
			`findmnt -n -o OPTIONS / | tr , '\n' | grep -E '^(noatime|redirect_dir|index|metacopy|xino|volatile|nfs_export|userxattr)' | sort | paste -sd,`,
			"index=on,metacopy=on,noatime,redirect_dir=on,xino=on"},
		{"machine-id", "cat /etc/machine-id", keys.MachineID(n.name)},
		{"cards with an address",
			`ip -4 -o addr show scope global | while read -r _ nic _; do cat "/sys/class/net/$nic/address"; done`,
			n.mac.String()},
	} {
		if got := s.run(g, look.command); got != look.want {
			s.t.Errorf("%s: %s: %q, expected %q", n.name, look.what, got, look.want)
		}
	}
}

// resolvers compares resolv.conf(5) of a guest with what DHCP gave it.
func (s *site) resolvers(n node, g *testkit.Guest, want string) {
	s.t.Helper()
	if got := s.run(g, "grep -v '^#' /etc/resolv.conf"); got != want {
		s.t.Errorf("%s: resolv.conf: %q, expected %q", n.name, got, want)
	}
}

// noErrors looks for kernel messages about failed reads of the root.
func (s *site) noErrors(n node, g *testkit.Guest) {
	s.t.Helper()
	kernel := s.run(g, "dmesg")
	for _, bad := range []string{"I/O error", "erofs: (device nbd0): failed", "SQUASHFS error", "shutting down " +
		"sockets", "Kernel panic", "hung_task"} {
		if strings.Contains(kernel, bad) {
			s.t.Errorf("%s: the kernel says %q:\n%s", n.name, bad, grep(kernel, bad))
		}
	}
}

func grep(text, word string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// wholeTimeline expects every stage of a boot, in order.
func wholeTimeline(b api.BootDetail) error {
	at := map[trace.Stage]api.Step{}
	for _, step := range b.Steps {
		if _, ok := at[step.Stage]; !ok {
			at[step.Stage] = step
		}
	}
	var before api.Step
	for _, stage := range trace.Stages() {
		if stage == trace.BootFile || stage == trace.Shutdown {
			continue // iPXE in a ROM needs no boot file before it
		}
		step, ok := at[stage]
		if !ok {
			return fmt.Errorf("timeline of boot %s has no stage %s", b.ID, stage)
		}
		if step.Start < before.Start {
			return fmt.Errorf(
				"timeline of boot %s: %s starts at %s, before %s at %s",
				b.ID,
				stage,
				step.Start,
				before.Stage,
				before.Start,
			)
		}
		before = step
	}
	return nil
}

// systemdFigures checks systemd's report of a boot against the timeline: kernel and initramfs come first, then systemd
// starts, its units follow, and the slowest of them are named.
func systemdFigures(b api.BootDetail) error {
	f := b.Systemd
	if f == nil || f.State != "running" || len(f.Failed) > 0 || f.Userspace <= 0 || f.Finish <= f.Userspace ||
		len(f.Units) == 0 {
		return fmt.Errorf("boot %s: figures of systemd: %+v", b.ID, f)
	}
	for _, u := range f.Units {
		if u.Unit == "" || u.Start < f.Userspace || u.Active < u.Start || u.Active > f.Finish {
			return fmt.Errorf(
				"boot %s: figures of %q: %+v, systemd ran from %s to %s",
				b.ID,
				u.Unit,
				u,
				f.Userspace,
				f.Finish,
			)
		}
	}
	at := map[trace.Stage]time.Duration{}
	for _, step := range b.Steps {
		at[step.Stage] = step.Start
	}
	kernel, started := b.SystemdStart, b.SystemdStart+f.Userspace
	if kernel >= at[trace.Init] || started < at[trace.SwitchRoot] || started > at[trace.Booted] {
		return fmt.Errorf(
			"boot %s: kernel at %s, init at %s, switchroot at %s, systemd at %s, booted at %s: out of order",
			b.ID,
			kernel,
			at[trace.Init],
			at[trace.SwitchRoot],
			started,
			at[trace.Booted],
		)
	}
	return nil
}
