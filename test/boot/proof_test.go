package boot

import (
	"context"
	"fmt"
	"strings"

	"pando/internal/api"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// looked are files whose sums are compared.
var looked = []string{"/usr/bin/bash", "/usr/lib/systemd/systemd", "/usr/bin/perl", "/usr/lib/os-release",
	"/usr/sbin/sshd", "/var/lib/dpkg/status"}

// content is the root of what a node runs, from the store.
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

// prove looks into a node and at its timeline.
func (s *site) prove(n node, g *testkit.Guest) {
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
	s.noErrors(n, g)
	boot, err := s.API.NodeBoot(ctx, n.name)
	if err == nil {
		err = wholeTimeline(boot)
	}
	if err != nil {
		s.t.Errorf("%s: %v", n.name, err)
	}
}

// noErrors looks for what the kernel says when a read of the root failed.
func (s *site) noErrors(n node, g *testkit.Guest) {
	s.t.Helper()
	kernel := s.run(g, "dmesg")
	for _, bad := range []string{"I/O error", "erofs: (device nbd0): failed", "shutting down sockets", "Kernel panic", "hung_task"} {
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

// wholeTimeline wants every stage of a boot, in order.
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
			continue // iPXE in a ROM needs no other boot file
		}
		step, ok := at[stage]
		if !ok {
			return fmt.Errorf("timeline of boot %s has no stage %s", b.ID, stage)
		}
		if step.Start < before.Start {
			return fmt.Errorf("timeline of boot %s: %s starts at %s, before %s at %s", b.ID, stage, step.Start, before.Stage, before.Start)
		}
		before = step
	}
	return nil
}
