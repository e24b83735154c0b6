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

// extendMost bounds the time for a change of extensions. A failed change is repeated after extendAgain at the
// earliest.
const (
	extendMost  = 3 * time.Minute
	extendAgain = 30 * time.Second
	// extensionRetire is the interval for checking whether a detached extension is still in use.
	extensionRetire = 2 * time.Second
)

// extendAgent is the part of the agent that the extender uses.
type extendAgent interface {
	Self() rundir.Session      // the node's identity in this boot
	Info(message, hint string) // puts a fact on the timeline
	Wake()                     // makes the agent report soon
	Leaving() bool             // the node is on its way to its next boot: change nothing any more
}

// Extender attaches extensions to a running node and detaches them.
type Extender struct {
	dir     string
	control *control.Client
	agent   extendAgent
	log     io.Writer

	mu    sync.Mutex // guards the fields below, up to again
	state extension.State
	err   string    // why the attached extensions differ from the assigned ones; "": they do not
	again time.Time // do not try again before this time

	busy sync.Mutex // one change at a time
}

// New returns an Extender that continues from the state in the run directory, which init or an earlier agent wrote.
func New(dir string, control *control.Client, agent extendAgent, log io.Writer) *Extender {
	e := &Extender{dir: dir, control: control, agent: agent, log: log}
	e.begin(dir)
	return e
}

// begin reads the state in the run directory. It also finds extensions that an earlier agent did not finish to
// attach.
func (e *Extender) begin(dir string) {
	_ = rundir.ReadJSON(dir, extension.StateName, &e.state) // no file: no extensions
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
			// an agent ended while it attached this one
			e.state.Left = append(e.state.Left, rundir.FormerRoot{Block: d, Device: n})
		}
	}
}

// Has returns the attached extensions, and why they differ from the assigned ones ("": they do not).
func (e *Extender) Has() (list []fleet.Extension, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return extension.Listed(e.state.On), e.err
}

// Extend asks the server which extensions the node should have, and changes the attached ones to match.
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
		e.agent.Info("the node's extensions are not as assigned: "+why, problem.HintOf(err))
	case told != "":
		e.agent.Info(fmt.Sprintf("extensions: %s, in %s", told, time.Since(begun).Round(10*time.Millisecond)), "")
	}
	e.agent.Wake()
}

// extendNow makes the change and returns a description of it.
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
		return "", fmt.Errorf("the server sent extensions of %s, but %s runs", as.Version.Short(), self.Version.Short())
	}
	if len(self.TrustKeys) == 0 {
		return "", errors.New("the node was started by an older release, which stored no keys to trust: reboot it")
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
	if rundir.ReadJSON(e.dir, rundir.LeaseName, &l) == nil { // else peers of the same subnet are unknown
		source.Network = l.Network()
	}
	err = e.lay(ctx, source, gets, loses)
	return changeText(gets, loses) + e.received(ctx, gets), err
}

// received describes how many bytes were received for attached extensions, and how many of them from peers.
func (e *Extender) received(ctx context.Context, list []fleet.Extension) string {
	e.mu.Lock()
	on := slices.Clone(e.state.On)
	e.mu.Unlock()
	var all, peers int64
	for _, x := range on {
		if !slices.Contains(list, x.Extension) {
			continue
		}
		if s, err := x.Client().Status(ctx, 0); err == nil { // skip it: the text is only for people
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

// without removes extensions from the list of attached ones, and returns the removed ones.
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

// leave marks an extension's device to be detached once nothing uses it, and leaves its swarm.
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

// Retire detaches the devices of removed extensions, each once nothing uses it. It runs until ctx ends.
func (e *Extender) Retire(ctx context.Context) {
	for backoff.Sleep(ctx, extensionRetire) == nil {
		e.mu.Lock()
		left := slices.Clone(e.state.Left)
		e.mu.Unlock()
		for _, f := range left {
			err := blockapi.Detach(f)
			if errors.Is(err, os.ErrNotExist) { // it was never attached
				err = os.RemoveAll(f.Block)
			}
			if err != nil {
				if !errors.Is(err, unix.EBUSY) {
					e.logf("old extension cannot be detached: %v", err)
				}
				continue
			}
			e.logf("old extension detached: /dev/nbd%d", f.Device)
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

// LeaveSwarms tells each extension's peers that this machine leaves, so that they do not wait for it.
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
