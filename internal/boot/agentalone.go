package boot

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// AgentAlone is the part of an agent that tells a server what went wrong below a root, for a BlockAlone: what the
// server hears of a storm of such daemons is what it hears of real nodes. It does nothing that the server asks for,
// and nothing to the machine that it runs on.
type AgentAlone struct {
	agent *Agent
	look  sync.Mutex            // of what the agent has told
	stop  [2]context.CancelFunc // of looking, and of sending
	ended [2]sync.WaitGroup
}

// AgentConfig is what a boot's init leaves for its agent.
type AgentConfig struct {
	Boot      fleet.BootID
	Node      string
	MAC       fleet.MAC
	Session   string   // the server's, of this boot
	Control   []string // base URLs
	ServerKey string
	Init      time.Time // zero of the boot's offsets

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: as this process
}

// StartAgentAlone starts one in the directory of a block daemon. One that runs there after another goes on where
// that has ended.
func StartAgentAlone(dir string, c AgentConfig, log io.Writer) (*AgentAlone, error) {
	s := session{
		Boot:      c.Boot,
		Node:      c.Node,
		MAC:       c.MAC,
		Session:   c.Session,
		Control:   c.Control,
		ServerKey: c.ServerKey,
		Origin:    monotonic() - time.Since(c.Init),
	}
	if err := writeJSON(dir, sessionName, 0o600, s); err != nil {
		return nil, fmt.Errorf("start an agent alone: %w", err)
	}
	way, err := newControl(s.Control, s.ServerKey, c.Dial)
	if err != nil {
		return nil, fmt.Errorf("start an agent alone: %w", err)
	}
	a := newAgent(&identity{dir: dir, session: s}, way, log)
	a.voice.answered = func(api.ReportResponse) {} // nothing is done that the server asks for
	x := &AgentAlone{agent: a}
	for i, run := range [...]func(context.Context){x.watch, a.report.run} {
		ctx, stop := context.WithCancel(context.Background())
		x.stop[i] = stop
		x.ended[i].Go(func() { run(ctx) })
	}
	return x, nil
}

func (x *AgentAlone) watch(ctx context.Context) {
	for {
		x.tell(ctx)
		if sleep(ctx, bootingEvery) != nil {
			return
		}
	}
}

// tell looks what went wrong since the last time.
func (x *AgentAlone) tell(ctx context.Context) {
	x.look.Lock()
	defer x.look.Unlock()
	_, _ = x.agent.status.incidents.status(ctx) // a daemon that is gone is in the log
}

// Booted says that the boot is over: what goes wrong from now on happens to a node that runs.
func (x *AgentAlone) Booted() {
	x.look.Lock()
	defer x.look.Unlock()
	x.agent.record.booted(monotonic())
	x.agent.record.keep()
}

// Close tells what is left to tell, unless ctx ends before the server has heard it.
func (x *AgentAlone) Close(ctx context.Context) error {
	x.stop[0]()
	x.ended[0].Wait()
	x.tell(ctx)
	err := x.flush(ctx) // before sending ends: what is on its way then would be sent twice
	x.stop[1]()
	x.ended[1].Wait()
	x.agent.Control().closeIdle()
	return err
}

func (x *AgentAlone) flush(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := x.agent.report.flush(ctx)
		if err == nil {
			return nil
		}
		if sleep(ctx, backoff(failures)) != nil {
			return fmt.Errorf("an agent alone has more to tell: %w", err)
		}
	}
}
