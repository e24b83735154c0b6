package initrd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/problem"
	"pando/internal/rootdir"
	"pando/internal/rundir"
	"pando/internal/systemd"
	"pando/internal/trace"
)

// nextRootDir is where systemd (254 and later) expects the root of a soft reboot.
const nextRootDir = "/run/nextroot"

// softTarget exists in every root whose systemd supports soft reboots.
const softTarget = "/usr/lib/systemd/system/soft-reboot.target"

// softBegin bounds the time from the start of the next boot until systemd is called. If it takes longer, the node
// reboots through its firmware.
const softBegin = 2 * time.Minute

// SoftReboot starts the next boot with the running kernel. If that fails, the node reboots.
func (n *NextBoot) SoftReboot(ctx context.Context) {
	n.staging.Lock()
	defer n.staging.Unlock()
	m, err := n.stage(ctx)
	if err == nil {
		err = n.toNext(ctx, m)
	}
	if err == nil {
		return
	}
	why := "the node reboots through its firmware, because a soft reboot failed: " + err.Error()
	n.logf("%s", why)
	if m != nil && m.timeline.channel.session.Load() != nil {
		m.timeline.event(
			trace.Event{Stage: trace.SwitchRoot, Kind: trace.Fail, Attempt: 1, Message: why, Hint: problem.HintOf(err)},
		)
		m.timeline.flush(rebootFlush)
	} else {
		n.agent.Info(why, problem.HintOf(err))
		flush, cancel := context.WithTimeout(ctx, rebootFlush)
		defer cancel()
		_ = n.agent.Flush(flush)
	}
	if _, err := systemd.Systemctl(ctx, "reboot"); err != nil {
		n.logf("reboot: %v", err)
	}
}

// toNext begins the next boot, makes its root, and calls systemd to switch to it.
func (n *NextBoot) toNext(ctx context.Context, m *staged) error {
	ctx, cancel := context.WithTimeout(ctx, softBegin)
	defer cancel()
	self, before := n.agent.Self(), m.timeline.assigned().Version
	n.leaving.Store(true)
	n.agent.Goodbye(ctx, "goes on with its next boot, by soft-reboot")
	var kept rundir.Session // the current file: previous roots may be detached since
	if err := rundir.ReadJSON(n.dir, rundir.SessionName, &kept); err != nil {
		return err
	}
	m.settings.former = append(kept.Former, rundir.FormerRoot{Block: self.Block, Device: self.Device})
	var next api.BeginResponse
	if err := n.control.Call(ctx, "/v1/node/next", "Bearer "+self.Session, api.NodeNext{Boot: self.Boot},
		&next); err != nil {
		return err
	}
	m.timeline.report.Take() // drop the events of staging, which are no part of the boot
	m.timeline.started, m.timeline.origin = time.Now(), rundir.Monotonic()
	m.timeline.begin.Store(&next)
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	go m.timeline.report.Run(reporting)
	m.timeline.event(trace.Event{Stage: trace.Init, Kind: trace.End, Message: "the kernel goes on; no firmware, " +
		"no kernel"})
	r := Runner{
		Phases:      m.softPhases(&results{lease: m.lease}, before),
		Report:      m.timeline.event,
		RebootAfter: func() time.Duration { return softBegin / 2 },
	}
	if err := r.Run(ctx); err != nil {
		return err
	}
	m.timeline.flush(switchFlush)
	stop()
	m.timeline.collect(switchFlush)
	return n.leaveFor(ctx, m)
}

// prepareSoft checks that systemd can switch to the next root.
func prepareSoft(dir string, s *Session, log *console) (init, text string, err error) {
	root, err := rootdir.Open(dir)
	if err != nil {
		return "", "", err
	}
	defer root.Close()
	if err := knowsSoft(root); err != nil {
		return "", "", err
	}
	return prepareSwitch(dir, "", s, log)
}

func knowsSoft(root *rootdir.Dir) error {
	if root.Exists(softTarget) {
		return nil
	}
	return &problem.Problem{
		Err:   errors.New("the next version's systemd knows no soft reboot: it is older than 254"),
		Final: true,
	}
}

// leaveFor writes the files that the next boot's agent reads, and calls systemd to switch to the next root. systemd
// ends this agent.
func (n *NextBoot) leaveFor(ctx context.Context, m *staged) error {
	if m.rootDevice.device != nil {
		m.rootDevice.device.Release()
	}
	err := errors.Join(
		rundir.WriteJSON(n.dir, rundir.EventsName, 0o600, m.timeline.report.Take()),
		rundir.WriteJSON(n.dir, rundir.ProgressName, 0o600, map[string]bool{"traced": true}),
		os.RemoveAll(
			filepath.Join(n.dir, rundir.MarksName),
		),
		replaceLink(filepath.Join(m.rootDevice.at.block, blockapi.Socket), filepath.Join(n.dir, blockapi.Socket)),
	)
	if err != nil {
		return err
	}
	_, err = systemd.Systemctl(ctx, "soft-reboot")
	if err != nil {
		return fmt.Errorf("systemctl soft-reboot: %w", err)
	}
	return nil
}

// replaceLink replaces name by a symbolic link, atomically.
func replaceLink(target, name string) error {
	_ = os.Remove(name + ".new")
	if err := os.Symlink(target, name+".new"); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
