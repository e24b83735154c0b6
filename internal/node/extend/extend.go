package extend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/backoff"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/extension"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/rundir"
)

// extendMost is how long a change of extensions may take; extendAgain is how long one that failed is not tried again.
const (
	extendMost  = 3 * time.Minute
	extendAgain = 30 * time.Second
	// extensionRetire is how often is looked whether an extension that was taken away is still used.
	extensionRetire = 2 * time.Second
)

// Agent is what the extender needs of the agent.
type extendAgent interface {
	Self() rundir.Session      // who the node is in this boot
	Info(message, hint string) // puts a fact on the timeline
	Wake()                     // has the agent report soon
	Leaving() bool             // the node goes to its next boot: nothing is changed any more
}

// Extender changes what is laid over the root of a node that runs.
type Extender struct {
	dir     string
	control *control.Client
	agent   extendAgent
	log     io.Writer

	mu    sync.Mutex // of the state and of what follows
	state extension.State
	err   string    // why the node has not what it should have
	again time.Time // before which it is not tried again

	busy sync.Mutex // one change at a time
}

// New takes over what init, or an agent before this one, has left in the run directory.
func New(dir string, control *control.Client, agent extendAgent, log io.Writer) *Extender {
	e := &Extender{dir: dir, control: control, agent: agent, log: log}
	e.begin(dir)
	return e
}

// begin takes over what init, or an agent before this one, has left.
func (e *Extender) begin(dir string) {
	_ = rundir.ReadJSON(dir, extension.StateName, &e.state) // none: there are none
	known := map[string]bool{}
	for _, x := range e.state.On {
		known[x.Block] = true
	}
	for _, f := range e.state.Left {
		known[f.Block] = true
	}
	dirs, _ := filepath.Glob(filepath.Join(dir, extension.DirPrefix+"*"))
	for _, d := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), extension.DirPrefix))
		if err == nil && !known[d] {
			// of an agent that ended in the middle
			e.state.Left = append(e.state.Left, rundir.FormerRoot{Block: d, Device: n})
		}
	}
}

// Has is what is laid over the root, and why it is not what it should be.
func (e *Extender) Has() (list []fleet.Extension, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return extension.Listed(e.state.On), e.err
}

// Extend asks which extensions the node should have, and makes it so.
func (e *Extender) Extend(ctx context.Context) {
	e.mu.Lock()
	wait := time.Now().Before(e.again)
	e.mu.Unlock()
	if wait || !e.busy.TryLock() {
		return
	}
	defer e.busy.Unlock()
	ctx, cancel := context.WithTimeout(ctx, extendMost)
	defer cancel()
	begun := time.Now()
	told, err := e.extendNow(ctx)
	why := ""
	if err != nil {
		why = err.Error()
	}
	e.mu.Lock()
	again := why != "" && e.err == why
	e.err, e.again = why, time.Time{}
	if why != "" {
		e.again = time.Now().Add(extendAgain)
	}
	e.mu.Unlock()
	switch {
	case why != "" && !again:
		e.agent.Info("its extensions are not as they should be: "+why, problem.HintOf(err))
	case told != "":
		e.agent.Info(fmt.Sprintf("extensions: %s, in %s", told, time.Since(begun).Round(10*time.Millisecond)), "")
	}
	e.agent.Wake()
}

// extendNow returns what changed, in words.
func (e *Extender) extendNow(ctx context.Context) (string, error) {
	self := e.agent.Self()
	var told api.StageResponse
	if err := e.control.Call(ctx, "/v1/node/extensions", "Bearer "+self.Session, api.NodeNext{Boot: self.Boot},
		&told); err != nil {
		return "", err
	}
	as, err := control.CheckAssignment(
		api.RegisterResponse{Assignment: told.Assignment, Signature: told.Signature, Session: self.Session},
		api.BootConfig{Boot: self.Boot, ServerKey: self.ServerKey},
	)
	if err != nil {
		return "", err
	}
	if as.Version != self.Version {
		return "", fmt.Errorf("extensions of %s were told, and %s runs", as.Version.Short(), self.Version.Short())
	}
	if len(self.TrustKeys) == 0 {
		return "", errors.New("it was started by a release that leaves no keys to trust")
	}
	has, _ := e.Has()
	gets, loses := fleet.Lacking(as.Extensions, has), fleet.Lacking(has, as.Extensions)
	if len(gets)+len(loses) == 0 {
		return "", nil
	}
	source := extension.Source{
		Dir:     e.dir,
		As:      as,
		Trust:   image.Trust{Keys: self.TrustKeys, Revoked: as.RevokedKeys},
		Cgroup:  blockapi.InitScope,
		Running: self.Version,
		Tell:    e.agent.Info,
	}
	var l link.Lease
	if rundir.ReadJSON(e.dir, rundir.LeaseName, &l) == nil { // else it is not known which peers are near
		source.Network = l.Network()
	}
	err = e.lay(ctx, source, gets, loses)
	return changeText(gets, loses) + e.received(ctx, gets), err
}

// received reports how many bytes came for extensions that were attached, and from whom.
func (e *Extender) received(ctx context.Context, list []fleet.Extension) string {
	e.mu.Lock()
	on := slices.Clone(e.state.On)
	e.mu.Unlock()
	var all, peers int64
	for _, x := range on {
		if !slices.Contains(list, x.Extension) {
			continue
		}
		if s, err := x.Client().Status(ctx, 0); err == nil { // it is only for people
			peers += s.Bytes["peer"]
			all += s.Bytes["peer"] + s.Bytes["server"] + s.Bytes["bucket"]
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.1f MB received, %.1f MB of it from peers)", float64(all)/1e6, float64(peers)/1e6)
}

func changeText(gets, loses []fleet.Extension) string {
	var out []string
	for _, e := range gets {
		out = append(out, e.Short()+" attached")
	}
	for _, e := range loses {
		out = append(out, e.Short()+" detached")
	}
	return strings.Join(out, ", ")
}

// without takes extensions out of what is laid over the root, and returns them.
func (e *Extender) without(list []fleet.Extension) (out []extension.Attached) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.On = slices.DeleteFunc(e.state.On, func(x extension.Attached) bool {
		gone := slices.Contains(list, x.Extension)
		if gone {
			out = append(out, x)
		}
		return gone
	})
	return out
}

func (e *Extender) add(fresh []extension.Attached) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.On = append(e.state.On, fresh...)
}

// leave notes that the device of an extension goes when nothing uses it any more.
func (e *Extender) leave(x extension.Attached) {
	e.mu.Lock()
	e.state.Left = append(e.state.Left, rundir.FormerRoot{Block: x.Block, Device: x.Device})
	e.mu.Unlock()
	e.keepExtensions()
	go e.leaveSwarm(x.Client())
}

func (e *Extender) keepExtensions() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := rundir.WriteJSON(e.dir, extension.StateName, 0o600, e.state); err != nil {
		e.logf("%v", err)
	}
}

// Retire detaches devices of extensions that were taken away, each when nothing uses it any more.
func (e *Extender) Retire(ctx context.Context) {
	for backoff.Sleep(ctx, extensionRetire) == nil {
		e.mu.Lock()
		left := slices.Clone(e.state.Left)
		e.mu.Unlock()
		for _, f := range left {
			err := blockapi.Detach(f)
			if errors.Is(err, os.ErrNotExist) { // there never was a device
				err = os.RemoveAll(f.Block)
			}
			if err != nil {
				if !errors.Is(err, unix.EBUSY) {
					e.logf("detach an extension: %v", err)
				}
				continue
			}
			e.logf("/dev/nbd%d, an extension of before, is detached", f.Device)
			e.mu.Lock()
			e.state.Left = slices.DeleteFunc(
				e.state.Left,
				func(o rundir.FormerRoot) bool { return o == f },
			)
			e.mu.Unlock()
			e.keepExtensions()
		}
	}
}

// LeaveSwarms lets the peers of each extension know before they wait for this machine in vain.
func (e *Extender) LeaveSwarms() {
	e.mu.Lock()
	on := slices.Clone(e.state.On)
	e.mu.Unlock()
	var all sync.WaitGroup
	for _, x := range on {
		all.Go(func() { e.leaveSwarm(x.Client()) })
	}
	all.Wait()
}

func (e *Extender) leaveSwarm(c blockapi.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.Leave(ctx); err != nil {
		e.logf("%v", err)
	}
}

func (e *Extender) logf(format string, args ...any) { fmt.Fprintf(e.log, format+"\n", args...) }
