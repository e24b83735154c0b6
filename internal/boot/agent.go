package boot

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// How often the agent looks and speaks. Marks come by socket; looking is for what came while it was away.
const (
	lookEvery    = 5 * time.Second
	bootingEvery = 2 * time.Second  // until some time after booted, when people watch
	figuresPause = 15 * time.Second // between the figures of a node that has booted, when it reads
	spacePause   = 5 * time.Minute  // and when only its writable memory changed, which it does all the time
	beatEvery    = time.Minute      // a sign of life, when there was nothing else to say; a quarter more or less
	askSystemd   = 6 * time.Second  // at shutdown, which is when a slow machine has most to do
	farewell     = 6 * time.Second  // for the last word; with askSystemd it stays below the unit's TimeoutStopSec
)

// agent is the running node's voice. It may be killed and started again at any time: what it has to know is in
// the run directory, and what it has sent is on record there.
type agent struct {
	dir      string
	root     string // mount point of the overlay
	session  session
	joined   atomic.Pointer[session] // of a node that booted without a server, when it has one
	release  string
	control  *control
	report   *reporter
	block    BlockClient
	log      io.Writer
	progress progress  // of the marks loop and the status loop, which are one goroutine
	sent     time.Time // when last was taken by the server
	last     api.NodeStatus
	beat     time.Duration             // after how much silence the node gives a sign of life
	spoke    atomic.Pointer[time.Time] // when the server last took a word, of whichever goroutine
	again    time.Time                 // before which a status that did not arrive is not sent again
	wait     time.Duration             // the longest that again may be off
	booted   atomic.Bool
	systemd  *api.Systemd
	asked    int // times that systemd gave an account, whole or not

	errands errands
	alone   bool        // on a machine that is none of the server's: nothing is done that it asks for
	leaving atomic.Bool // what the next boot's agent has to know is written; nothing of it may be changed

	reads   *api.TraceRequest // what this boot read, once it was asked for
	traceAt time.Duration     // CLOCK_MONOTONIC before which the read trace is not sent (again)

	medium mediumCare
	marked bool // the cache's disk was told that this boot came up

	extensions extender
	kicks      chan struct{} // something is to be said
	nudged     atomic.Bool   // the server wants a word

	staging sync.Mutex              // one version is made ready at a time
	staged  atomic.Pointer[machine] // what is; nil: nothing
}

// progress is what must not be reported twice.
type progress struct {
	Marks     int64 `json:"marks"`     // bytes of the marks file that were reported
	Incidents int64 `json:"incidents"` // sequence of the newest incident that was reported
	Leftover  bool  `json:"leftover"`  // init's last events were reported
	Booted    bool  `json:"booted"`

	BootedAt time.Duration `json:"booted_at"` // CLOCK_MONOTONIC
	Traced   bool          `json:"traced"`    // the read trace was sent, or refused
	Medium   bool          `json:"medium"`    // the boot medium is in step, or there is none
	Until    bool          `json:"until"`     // the mark was made that reads are recorded until
}

// RunAgent is the role of pando-agent.service. It returns the exit status when it is told to end.
func RunAgent(release string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	a, err := newAgent(RunDir, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "pando-agent:", err)
		return 1
	}
	fmt.Fprintf(stderr, "pando-agent %s: node %s, boot %s\n", release, a.session.Node, a.session.Boot)
	a.release = release
	a.run(ctx)
	return 0
}

func newAgent(dir string, log io.Writer) (*agent, error) {
	a := &agent{dir: dir, root: "/", log: log}
	if err := readJSON(dir, sessionName, &a.session); err != nil {
		return nil, fmt.Errorf("not on a Pando node: %w", err)
	}
	a.block = BlockClient{Socket: filepath.Join(cmp.Or(a.session.Block, dir), BlockSocket)}
	_ = readJSON(dir, progressName, &a.progress) // none yet: from the start
	a.booted.Store(a.progress.Booted)
	a.extensions.begin(dir)
	a.kicks = make(chan struct{}, 1)
	var err error
	if a.control, err = newControl(a.session.Control, a.session.ServerKey); err != nil {
		return nil, err
	}
	a.report = newReporter(a.post)
	return a, nil
}

// run works until ctx ends, then says goodbye if the machine goes down.
func (a *agent) run(ctx context.Context) {
	go a.keepLease(ctx)
	if !a.join(ctx) {
		return
	}
	go a.report.run(ctx)
	go a.retire(ctx)
	go a.retireExtensions(ctx)
	go a.hearNudges(ctx)
	a.listen(ctx)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			a.goodbye()
			return
		case <-a.kicks:
		case <-next.C:
		}
		if a.leaving.Load() {
			continue // for the next boot
		}
		a.leftover()
		a.pstore(ctx)
		a.marks()
		a.keepBooted()
		a.status(ctx)
		a.sendReads(ctx)
		a.renewMedium(ctx)
		next.Reset(a.interval())
	}
}

func (a *agent) interval() time.Duration {
	if a.errands.recent() {
		return errandEvery
	}
	if !a.booted.Load() || a.last.Systemd == nil && a.offset() < 10*time.Minute {
		return bootingEvery
	}
	return lookEvery
}

// kick has the loop look and speak at once.
func (a *agent) kick() {
	select {
	case a.kicks <- struct{}{}:
	default:
	}
}

// listen kicks when a mark was made.
func (a *agent) listen(ctx context.Context) {
	path := filepath.Join(a.dir, agentSocket)
	_ = os.Remove(path)
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		a.logf("listen: %v", err) // marks are still found by looking
		return
	}
	context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		for b := make([]byte, 16); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			a.kick()
		}
	}()
}

// post sends events. Those that the server will never take are logged and dropped: keeping them would hold up
// all that comes later.
func (a *agent) post(ctx context.Context, events []trace.Event) error {
	err := a.send(ctx, events, nil)
	if !forGood(err) {
		return err
	}
	for _, e := range events {
		a.logf("event refused: %s %s %q: %v", e.Stage, e.Kind, e.Message, err)
	}
	return nil
}

func (a *agent) send(ctx context.Context, events []trace.Event, status *api.NodeStatus) error {
	if events == nil {
		events = []trace.Event{}
	}
	for i := range events {
		events[i].Boot = a.self().Boot // those of before a server answered have none
	}
	has, _ := a.extensions.has()
	return a.say(
		ctx,
		api.ReportRequest{
			Boot:       a.self().Boot,
			Events:     events,
			Uptime:     a.offset(),
			Status:     status,
			Extensions: fleet.ExtensionsKey(has),
		},
	)
}

// say sends a report, and begins what the server asks for in its answer.
func (a *agent) say(ctx context.Context, req api.ReportRequest) error {
	var answer api.ReportResponse
	err := a.control.call(ctx, "/v1/node/events", "Bearer "+a.self().Session, req, &answer)
	if err == nil {
		now := time.Now()
		a.spoke.Store(&now)
	}
	if err == nil && !a.alone {
		a.errands.begin(answer.Errand, a.doErrand)
		if answer.Extend && !a.leaving.Load() {
			go a.extend(context.Background())
		}
	}
	return err
}

// event queues an event of the running node.
func (a *agent) event(e trace.Event) {
	e.Boot, e.Node, e.MAC = a.self().Boot, a.session.Node, a.session.MAC
	if e.Offset == 0 {
		e.Offset = a.offset()
	}
	a.report.add(e)
}

// info queues a fact, under the stage that the node is in.
func (a *agent) info(message, hint string) {
	stage := trace.SwitchRoot
	if a.booted.Load() {
		stage = trace.Booted
	}
	a.event(trace.Event{Stage: stage, Kind: trace.Info, Message: message, Hint: hint})
}

// goodbye reports that the machine goes down; a restart of the agent alone is not worth a word.
func (a *agent) goodbye() {
	ask, cancelAsk := context.WithTimeout(context.Background(), askSystemd)
	defer cancelAsk()
	// A system manager that is too busy to answer is going down: a restart of the agent alone leaves it idle.
	switch {
	case a.leaving.Load():
		a.leaveSwarms() // the rest was said
		return
	case goingDown(ask) || ask.Err() != nil:
		a.leaveSwarms()
		a.event(trace.Event{Stage: trace.Shutdown, Kind: trace.End, Message: "the machine goes down"})
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if err := a.report.flush(ctx); err != nil {
		a.logf("report: %v", err)
	}
}

// leaveSwarms lets peers know before they wait for this machine in vain.
func (a *agent) leaveSwarms() {
	var all sync.WaitGroup
	all.Go(func() { a.leaveSwarmOf(a.block) })
	a.extensions.mu.Lock()
	for _, x := range a.extensions.state.On {
		all.Go(func() { a.leaveSwarmOf(x.client()) })
	}
	a.extensions.mu.Unlock()
	all.Wait()
}

func (a *agent) leaveSwarmOf(c BlockClient) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.Leave(ctx); err != nil {
		a.logf("%v", err)
	}
}

// offset is the time since init started, by the clock that all processes of a boot share.
func (a *agent) offset() time.Duration { return monotonic() - a.session.Origin }

func (a *agent) logf(format string, args ...any) { fmt.Fprintf(a.log, format+"\n", args...) }
