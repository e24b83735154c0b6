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

// Alone is the part of an agent that reports incidents below a root, for a blockd.Alone, so that the server of a storm
// gets the reports of real nodes. It carries out no commands, and changes nothing on its machine.
type Alone struct {
	agent *Agent
	look  sync.Mutex            // of what the agent has told
	stop  [2]context.CancelFunc // of looking, and of sending
	ended [2]sync.WaitGroup
}

// Config is what a boot's init leaves for its agent.
type Config struct {
	Boot      fleet.BootID
	Node      string
	MAC       fleet.MAC
	Session   string   // the server's, of this boot
	Control   []string // base URLs
	ServerKey string
	Init      time.Time // zero of the boot's offsets

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: as this process
}

// StartAlone starts one in the directory of a block daemon. One that runs there after another goes on where
// that has ended.
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
	a.sender.answered = func(api.ReportResponse) {} // nothing is done that the server asks for
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

// tell looks what went wrong since the last time.
func (x *Alone) tell(ctx context.Context) {
	x.look.Lock()
	defer x.look.Unlock()
	_, _ = x.agent.status.incidents.status(ctx) // a daemon that is gone is in the log
}

// Booted says that the boot is over: what goes wrong from now on happens to a node that runs.
func (x *Alone) Booted() {
	x.look.Lock()
	defer x.look.Unlock()
	x.agent.record.booted(rundir.Monotonic())
	x.agent.record.keep()
}

// Close reports what is left to tell, unless ctx ends before the server has heard it.
func (x *Alone) Close(ctx context.Context) error {
	x.stop[0]()
	x.ended[0].Wait()
	x.tell(ctx)
	err := x.flush(ctx) // before sending ends: what is on its way then would be sent twice
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
			return fmt.Errorf("an agent alone has more to tell: %w", err)
		}
	}
}
