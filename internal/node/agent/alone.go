package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/backoff"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/rundir"
)

// Alone is the part of an agent that reports incidents of a blockd.Alone. It gives the server of a load test the
// reports of real nodes. It carries out no commands and changes nothing on its machine.
type Alone struct {
	agent *Agent
	look  sync.Mutex            // guards the agent's record
	stop  [2]context.CancelFunc // [0] ends watch, [1] ends the reporter
	ended [2]sync.WaitGroup
}

// Config is what init leaves for the agent of a boot.
type Config struct {
	Boot      fleet.BootID
	Node      string
	MAC       fleet.MAC
	Session   string   // session of this boot
	Control   []string // base URLs
	ServerKey string
	Init      time.Time // when init started: offset 0 of the timeline

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: a plain net.Dialer
}

// StartAlone starts an agent in the directory of a block daemon. It continues from the record of an earlier agent
// there.
func StartAlone(dir string, c Config, log io.Writer) (*Alone, error) {
	s := rundir.Session{
		Boot:      c.Boot,
		Node:      c.Node,
		MAC:       c.MAC,
		Session:   c.Session,
		Control:   c.Control,
		ServerKey: c.ServerKey,
		Origin:    rundir.Monotonic() - time.Since(c.Init),
	}
	if err := rundir.WriteJSON(dir, rundir.SessionName, 0o600, s); err != nil {
		return nil, fmt.Errorf("start an agent alone: %w", err)
	}
	way, err := control.New(s.Control, s.ServerKey, c.Dial)
	if err != nil {
		return nil, fmt.Errorf("start an agent alone: %w", err)
	}
	a := newAgent(&identity{dir: dir, session: s}, way, log)
	a.sender.answered = func(api.ReportResponse) {} // ignore requests of the server
	x := &Alone{agent: a}
	for i, run := range [...]func(context.Context){x.watch, a.report.Run} {
		ctx, stop := context.WithCancel(context.Background())
		x.stop[i] = stop
		x.ended[i].Go(func() { run(ctx) })
	}
	return x, nil
}

func (x *Alone) watch(ctx context.Context) {
	for {
		x.tell(ctx)
		if backoff.Sleep(ctx, bootingEvery) != nil {
			return
		}
	}
}

// tell reports the incidents since the last call.
func (x *Alone) tell(ctx context.Context) {
	x.look.Lock()
	defer x.look.Unlock()
	_, _ = x.agent.status.incidents.status(ctx) // the error is in the log
}

// Booted ends the boot phase: later incidents belong to the running node.
func (x *Alone) Booted() {
	x.look.Lock()
	defer x.look.Unlock()
	x.agent.record.booted(rundir.Monotonic())
	x.agent.record.keep()
}

// Close sends the remaining reports, or returns an error if ctx ends first.
func (x *Alone) Close(ctx context.Context) error {
	x.stop[0]()
	x.ended[0].Wait()
	x.tell(ctx)
	err := x.flush(ctx) // first, because a report that is being sent when Run ends would be sent twice
	x.stop[1]()
	x.ended[1].Wait()
	x.agent.Control().CloseIdle()
	return err
}

func (x *Alone) flush(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := x.agent.report.Flush(ctx)
		if err == nil {
			return nil
		}
		if backoff.Sleep(ctx, backoff.Delay(failures)) != nil {
			return fmt.Errorf("an agent alone has unsent reports: %w", err)
		}
	}
}
