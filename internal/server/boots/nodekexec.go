package boots

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/initrd"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Kexec answers POST /v1/node/kexec: a running node gets kernel and initramfs of its next boot, which begins now. They
// are sent over the connection that the node's session protects: a line of JSON, the kernel, the initramfs.
func (s *nextBoots) Kexec(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.NodeKexec](w, r)
	if err != nil {
		return err
	}
	b, err := s.nodeAuth.BySession(r, req.Boot)
	if err != nil {
		return err
	}
	if err := s.admission.Admit(r.Context(), b.MAC); err != nil {
		return err // the node closed the connection
	}
	slot := s.admission.Begin(b.MAC)
	defer slot.End()
	c, err := s.boots.Of(r.Context(), b.MAC)
	if err != nil {
		return err
	}
	next, kernel, initramfs, err := s.nextBoot(r, c, b)
	c.Unlock()
	if err != nil {
		return hint.API(err)
	}
	defer kernel.Close()
	defer initramfs.Close()
	line, err := json.Marshal(next)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	all := int64(len(line)) + 1 + next.Kernel + next.Initramfs
	out := &counter{ResponseWriter: w}
	out.sent = func(bytes int64) { slot.Sent(bytes, all-out.n) }
	_, _ = out.Write(append(line, '\n')) // the node notices an answer that breaks off
	_, _ = io.Copy(out, kernel)
	_, _ = io.Copy(out, initramfs)
	s.sentByKexec(r.Context(), c, next)
	return nil
}

// nextBoot begins the boot that follows b, as a script would. c's lock is held.
func (s *nextBoots) nextBoot(
	r *http.Request,
	c *bootlog.Entry,
	b registry.Boot,
) (next api.NextBoot, kernel *os.File, initramfs *initrd.Joined, err error) {
	ctx := r.Context()
	node, _, err := s.planner.Member(ctx, c.MAC)
	if err != nil {
		return next, nil, nil, err
	}
	if b.Session.IsZero() || c.Boot.ID != b.ID {
		return next, nil, nil, api.NewError(
			api.Conflict,
			fmt.Sprintf("boot %s is not what this machine runs", b.ID),
			"",
		)
	}
	p, err := s.planner.Plan(ctx, node, fleet.Hardware{})
	if err != nil {
		return next, nil, nil, err
	}
	c.Begin(s.now())
	c.Boot.Node, c.Boot.Firmware = node.Name, string(fleet.MethodKexec)
	from := httpapi.RemoteAddr(r)
	drivers, err := s.scripts.driversFor(ctx, c, p, netboot.Query{MAC: c.MAC})
	if err != nil {
		return next, nil, nil, err
	}
	in, err := s.scripts.start(ctx, c, netboot.ScriptInput{MAC: c.MAC}, p, drivers, from, bootlog.Load{})
	if err != nil {
		return next, nil, nil, err
	}
	if next.Line, err = netboot.CommandLine(in); err != nil {
		return next, nil, nil, err
	}
	if initramfs, _, err = s.tokens.initramfs(r, c); err != nil {
		return next, nil, nil, err
	}
	if kernel, err = s.store.Open(p.Manifest.Kernel.Object); err != nil {
		_ = initramfs.Close()
		return next, nil, nil, err
	}
	next.Boot, next.Kernel, next.Initramfs = c.Boot.ID, p.Manifest.Kernel.Size, initramfs.Size
	return next, kernel, initramfs, nil
}

// sentByKexec records the stages that firmware and boot loader have in other boots.
func (s *nextBoots) sentByKexec(ctx context.Context, c *bootlog.Entry, next api.NextBoot) {
	c.Lock()
	defer c.Unlock()
	if c.Boot.ID != next.Boot {
		return
	}
	for stage, n := range map[trace.Stage]int64{trace.Kernel: next.Kernel, trace.Initramfs: next.Initramfs} {
		s.boots.Record(ctx, c, trace.Event{Stage: stage, Kind: trace.Begin, Message: "to the node that runs; no " +
			"firmware"},
			trace.Event{Stage: stage, Kind: trace.End, Bytes: bootlog.BytesK(n)})
	}
}
