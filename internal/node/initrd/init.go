package initrd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/kmod"
	"pando/internal/trace"
)

// Run is the role of PID 1. It returns only when the machine is rebooting.
func Run(release string, parts Parts) int {
	m := newMachine(release, initramfsPlaces(), parts)
	err := early()
	m.timeline.console = openConsole()
	m.timeline.console.logf("Pando %s", release)
	defer func() {
		if r := recover(); r != nil {
			m.timeline.console.print(logCritical, fmt.Sprintf("init panics: %v\n%s", r, debug.Stack()))
			m.timeline.reboot(finalDelay)
		}
	}()
	if err != nil {
		m.timeline.giveUp("prepare the initramfs", err)
	}
	if err := m.readTrust(); err != nil {
		m.timeline.giveUp("read what the server sent along", err)
	}
	m.boot()
	m.timeline.reboot(0)
	return 1
}

// boot runs the phases and then the image's init. It returns only if the boot is stuck.
func (m *machine) boot() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := m.timeline
	go l.report.Run(ctx)
	l.event(trace.Event{Stage: trace.Init, Kind: trace.End, Message: l.greeting(),
		Attrs: map[string]string{trace.AttrKernel: l.origin.String()}})
	var p results
	r := Runner{Phases: m.phases(&p), Report: l.event, RebootAfter: l.rebootAfter}
	err := r.Run(ctx)
	if err == nil {
		l.flush(switchFlush)
		cancel()
		l.collect(switchFlush)
		err = m.execInit(p.init)
		l.event(trace.Event{Stage: trace.SwitchRoot, Kind: trace.Fail, Attempt: 1, Message: err.Error(),
			Hint: "the image's init does not start: is it for this architecture, and complete?"})
		time.Sleep(finalDelay)
	}
	cancel() // a hanging report would delay the last one
	l.flush(rebootFlush)
}

// assigned returns the assignment, empty before registration.
func (l *timeline) assigned() fleet.Assignment {
	if a := l.assignment.Load(); a != nil {
		return *a
	}
	return fleet.Assignment{}
}

// event completes an event, prints it and queues it for the server.
func (l *timeline) event(e trace.Event) {
	e.Boot, e.MAC, e.Node = l.bootID(), l.config.MAC, l.assigned().Node
	e.Offset = time.Since(l.started)
	if e.Kind == trace.End {
		e.Bytes = l.received()
	}
	l.console.show(e, l.took(e))
	l.report.Add(e)
	if e.Kind == trace.Fail {
		l.channel.failed.Store(true)
		l.report.Wake()
	}
}

// took returns how long the stage of an event has been running.
func (l *timeline) took(e trace.Event) time.Duration {
	l.telling.Lock()
	defer l.telling.Unlock()
	if e.Kind == trace.Begin {
		l.begun[e.Stage] = time.Now()
	}
	if t, ok := l.begun[e.Stage]; ok {
		return time.Since(t)
	}
	return e.Offset
}

// received returns the bytes that the block daemon has received, by source. It returns nil before there is a daemon.
func (d *rootDevice) received() map[string]int64 {
	if d.device == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	s, err := blockapi.Client{Socket: filepath.Join(d.at.block, blockapi.Socket)}.Status(ctx, 0)
	if err != nil {
		return nil // the agent reports them later; a boot does not wait for figures
	}
	return s.Bytes
}

func (m *machine) readTrust() error {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	m.drivers.cmd = kmod.ParseCommandLine(string(line))
	l := m.timeline
	if l.config, err = readBootConfig(bootConfigFile); err != nil {
		return err
	}
	if l.config.MAC.IsZero() {
		l.config.MAC = m.drivers.cmd.MAC
	}
	l.control, err = control.New(l.config.Control, l.config.ServerKey, nil)
	return err
}

func (l *timeline) greeting() string {
	if l.config.Medium != "" {
		return fmt.Sprintf("Pando %s, from a boot medium with %s", l.release, l.config.Medium.Short())
	}
	return fmt.Sprintf("Pando %s, boot %s", l.release, l.config.Boot)
}

func (l *timeline) rebootAfter() time.Duration {
	if d := l.assigned().RebootAfter; d != 0 {
		return d
	}
	return l.config.RebootAfter
}

// giveUp prints a failure and reboots. It is for failures before the server is known, which cannot be reported.
func (l *timeline) giveUp(what string, err error) {
	l.console.print(logCritical, fmt.Sprintf("init FAILED to %s\n  what:  %v\n  to do: the initramfs that the "+
		"server sent is not whole; look at the server's log\n  now:   rebooting in %s", what, err, finalDelay))
	l.reboot(finalDelay)
}

// reboot restarts the machine after a time in which a person can read the reason. If the node must never reboot by
// itself, reboot never returns.
func (l *timeline) reboot(after time.Duration) {
	time.Sleep(after)
	for l.rebootAfter() < 0 {
		l.console.print(logCritical, waiting)
		time.Sleep(time.Hour)
	}
	l.console.print(logCritical, "rebooting")
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {} // the kernel is about to restart the machine
}
