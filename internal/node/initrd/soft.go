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

// nextRootDir is where systemd (254 and later) looks for the root that a soft reboot goes to.
const nextRootDir = "/run/nextroot"

// softTarget is in every root whose systemd knows soft reboots.
const softTarget = "/usr/lib/systemd/system/soft-reboot.target"

// softBegin is how long it may take from the begin of the next boot until systemd is asked. What takes longer is a
// reboot by firmware.
const softBegin = 2 * time.Minute

// SoftReboot goes to the next boot with the kernel that runs. Whatever keeps it from that, the node reboots.
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
	why := "it reboots by its firmware, for it cannot go on with the kernel that runs: " + err.Error()
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

// toNext begins the next boot, makes its root, and has systemd go there.
func (n *NextBoot) toNext(ctx context.Context, m *staged) error {
	ctx, cancel := context.WithTimeout(ctx, softBegin)
	defer cancel()
	self, before := n.agent.Self(), m.timeline.assigned().Version
	n.leaving.Store(true)
	n.agent.Goodbye(ctx, "goes on with its next boot, by soft-reboot")
	var kept rundir.Session // as it is by now: roots of before may be gone
	if err := rundir.ReadJSON(n.dir, rundir.SessionName, &kept); err != nil {
		return err
	}
	m.settings.former = append(kept.Former, rundir.FormerRoot{Block: self.Block, Device: self.Device})
	var next api.BeginResponse
	if err := n.control.Call(ctx, "/v1/node/next", "Bearer "+self.Session, api.NodeNext{Boot: self.Boot},
		&next); err != nil {
		return err
	}
	m.timeline.report.Take() // of staging, which is no part of a boot
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

// prepareSoft checks that the next root can be gone to.
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

// leaveFor leaves what the agent of the next boot has to know, and asks systemd to go there. It takes this agent along.
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

// replaceLink makes name a symbolic link.
func replaceLink(target, name string) error {
	_ = os.Remove(name + ".new")
	if err := os.Symlink(target, name+".new"); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
