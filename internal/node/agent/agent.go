package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/rundir"
	"pando/internal/systemd"
	"pando/internal/trace"
)

// Intervals of the agent's loop and of its reports, and its limits at shutdown. A mark wakes the loop at once; the
// loop also finds marks that were made while the agent was not running.
const (
	lookEvery    = 5 * time.Second
	bootingEvery = 2 * time.Second  // until some time after booted, because people watch then
	figuresPause = 15 * time.Second // between statuses of a booted node when only its read counters changed
	spacePause   = 5 * time.Minute  // between statuses when only its write layer or stalled time changed
	beatEvery    = time.Minute      // mean time between heartbeats; each varies by a quarter
	askSystemd   = 6 * time.Second  // for requests to systemd at shutdown; a slow machine is busy then
	farewell     = 6 * time.Second  // for the last report; the sum with askSystemd is below the unit's TimeoutStopSec
)

// Agent reports the node's state and carries out the server's commands. It may be killed and restarted at any time: the
// session and the record of what was reported are in the run directory.
type Agent struct {
	*sender
	who    *identity
	waker  *waker
	block  blockapi.Client
	parts  Parts
	status *status
	marks  *marks
	waits  *waits
	kept   *bootedNote
	reads  *reads
}

// New returns an agent that continues from the files that init wrote to a run directory.
func New(dir, release string, log io.Writer) (*Agent, error) {
	who := &identity{dir: dir, release: release}
	if err := rundir.ReadJSON(dir, rundir.SessionName, &who.session); err != nil {
		return nil, fmt.Errorf("not on a Pando node: %w", err)
	}
	c, err := control.New(who.session.Control, who.session.ServerKey, nil)
	if err != nil {
		return nil, err
	}
	return newAgent(who, c, log), nil
}

func newAgent(who *identity, c *control.Client, log io.Writer) *Agent {
	a := &Agent{who: who, waker: newWaker(log)}
	a.parts = Parts{Extensions: nothing{}, Next: nothing{}, Medium: nothing{}}
	a.block = blockapi.Client{Socket: filepath.Join(cmp.Or(who.session.Block, who.dir), blockapi.Socket)}
	rec := readRecord(who.dir, a.Leaving, log)
	a.sender = &sender{who: who, record: rec, control: c, log: log, answered: a.answered,
		extensions: func() ([]fleet.Extension, string) { return a.parts.Extensions.Has() }}
	a.sender.report = control.NewReporter(a.sender.post)
	a.marks = &marks{who: who, sender: a.sender, record: rec, block: a.block}
	a.waits = &waits{sender: a.sender, record: rec, systemctl: systemd.Systemctl}
	a.kept = &bootedNote{who: who, sender: a.sender, record: rec}
	a.reads = &reads{who: who, sender: a.sender, record: rec, block: a.block}
	a.status = &status{who: who, sender: a.sender, record: rec, waker: a.waker, root: "/",
		incidents:  &incidents{who: who, sender: a.sender, record: rec, block: a.block},
		commands:   &commands{who: who, sender: a.sender, root: "/"},
		extensions: a.sender.extensions,
		staged:     func() fleet.Digest { return a.parts.Next.Staged() }}
	return a
}

// Use sets the parts that other packages implement. It must be called before Run.
func (a *Agent) Use(p Parts) {
	a.parts = p
	a.status.commands.next, a.status.commands.disks = p.Next, p.Medium
}

// Control returns the agent's client of the control port.
func (a *Agent) Control() *control.Client { return a.sender.control }

// Block returns a client of the root's block daemon.
func (a *Agent) Block() blockapi.Client { return a.block }

// Self returns the node's identity in this boot.
func (a *Agent) Self() rundir.Session { return a.who.Self() }

// Wake makes the agent report at once.
func (a *Agent) Wake() { a.waker.Wake() }

// Leaving reports whether the node is on its way to the next boot.
func (a *Agent) Leaving() bool { return a.parts.Next.Leaving() }

// answered starts what the server requested in its answer to a report.
func (a *Agent) answered(answer api.ReportResponse) {
	a.status.commands.begin(answer.Command)
	if answer.Extend && !a.Leaving() {
		go a.parts.Extensions.Extend(context.Background())
	}
}

// Run works until ctx ends. If the machine goes down then, Run sends a last report.
func (a *Agent) Run(ctx context.Context) {
	if !(&joiner{who: a.who, sender: a.sender}).wait(ctx) {
		return
	}
	go a.report.Run(ctx)
	for _, run := range a.parts.Beside {
		go run(ctx)
	}
	go a.waker.listenUDP(ctx)
	a.waker.listenMarks(ctx, a.who.dir)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			a.goodbye()
			return
		case <-a.waker.wakes:
		case <-next.C:
		}
		if a.Leaving() {
			continue // the next boot's agent reports from here on
		}
		a.marks.leftover()
		a.pstore(ctx)
		a.marks.look()
		a.waits.look(ctx)
		a.kept.look()
		a.status.report(ctx)
		a.reads.send(ctx)
		a.holdLogin(ctx)
		a.renewMedium(ctx)
		next.Reset(a.status.interval())
	}
}

// holdLogin starts, once per boot, to hold in memory the files that a login reads. It waits until the boot's reads
// are no longer recorded, because its own reads are no part of the boot.
func (a *Agent) holdLogin(ctx context.Context) {
	rec := a.sender.record
	if a.parts.Login == nil || !rec.up.Load() || !rec.Traced && rundir.Monotonic()-rec.BootedAt < 2*readsLongest {
		return
	}
	go a.parts.Login(ctx)
	a.parts.Login = nil
}

// renewMedium updates the boot medium to the version that runs, once per boot.
func (a *Agent) renewMedium(ctx context.Context) {
	rec := a.sender.record
	if !rec.up.Load() || rec.Medium {
		return
	}
	disk, wrote, ok := a.parts.Medium.Look(ctx, rec.BootedAt)
	if !ok {
		return
	}
	if wrote > 0 {
		a.event(trace.Event{Stage: trace.Booted, Kind: trace.Info,
			Message: fmt.Sprintf("boot medium %s has the kernel and initramfs of this version now", disk)})
	}
	rec.Medium = true
	if disk != "" {
		rec.keep()
	}
}

// goodbye reports that the machine goes down. If only the agent restarts, it just sends what is queued.
func (a *Agent) goodbye() {
	ask, cancelAsk := context.WithTimeout(context.Background(), askSystemd)
	defer cancelAsk()
	ctx, cancel := context.WithTimeout(context.Background(), askSystemd+farewell)
	defer cancel()
	// If systemd is too busy to answer, the machine is going down: during a restart of only the agent, systemd is
	// idle.
	switch {
	case a.Leaving():
		a.leaveSwarms() // the next boot was reported already
	case systemd.GoingDown(ask) || ask.Err() != nil:
		off := systemd.SwitchesOff(ask, systemd.Systemctl)
		a.leaveSwarms()
		a.goesDown(ctx, off)
	default:
		if err := a.Flush(ctx); err != nil {
			a.logf("report: %v", err)
		}
	}
}

// leaveSwarms tells peers that this node leaves, so that they do not wait for it.
func (a *Agent) leaveSwarms() {
	var all sync.WaitGroup
	all.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := a.block.Leave(ctx); err != nil {
			a.logf("%v", err)
		}
	})
	all.Go(a.parts.Extensions.LeaveSwarms)
	all.Wait()
}
