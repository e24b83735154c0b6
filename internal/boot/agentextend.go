package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
)

// extendMost is how long a change of extensions may take; extendAgain is how long one that failed is not tried again.
const (
	extendMost  = 3 * time.Minute
	extendAgain = 30 * time.Second
)

// extender changes what is laid over the root of a node that runs.
type extender struct {
	mu    sync.Mutex // of the state and of what follows
	state extensionState
	err   string    // why the node has not what it should have
	again time.Time // before which it is not tried again

	busy sync.Mutex // one change at a time
}

// begin takes over what init, or an agent before this one, has left.
func (e *extender) begin(dir string) {
	_ = readJSON(dir, extensionsName, &e.state) // none: there are none
	known := map[string]bool{}
	for _, x := range e.state.On {
		known[x.Block] = true
	}
	for _, f := range e.state.Left {
		known[f.Block] = true
	}
	dirs, _ := filepath.Glob(filepath.Join(dir, extensionPrefix+"*"))
	for _, d := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), extensionPrefix))
		if err == nil && !known[d] {
			e.state.Left = append(e.state.Left, formerRoot{d, n}) // of an agent that ended in the middle
		}
	}
}

// has is what is laid over the root, and why it is not what it should be.
func (e *extender) has() (list []fleet.Extension, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return listed(e.state.On), e.err
}

// extend asks which extensions the node should have, and makes it so.
func (a *agent) extend(ctx context.Context) {
	e := &a.extensions
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
	told, err := a.extendNow(ctx)
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
		a.info("its extensions are not as they should be: "+why, hintOf(err))
	case told != "":
		a.info(fmt.Sprintf("extensions: %s, in %s", told, time.Since(begun).Round(10*time.Millisecond)), "")
	}
	a.kick()
}

// extendNow returns what changed, in words.
func (a *agent) extendNow(ctx context.Context) (string, error) {
	self := a.self()
	var told api.StageResponse
	if err := a.control.call(ctx, "/v1/node/extensions", "Bearer "+self.Session, api.NodeNext{Boot: self.Boot}, &told); err != nil {
		return "", err
	}
	as, err := checkAssignment(
		api.HelloResponse{Assignment: told.Assignment, Signature: told.Signature, Session: self.Session},
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
	has, _ := a.extensions.has()
	gets, loses := fleet.Lacking(as.Extensions, has), fleet.Lacking(has, as.Extensions)
	if len(gets)+len(loses) == 0 {
		return "", nil
	}
	source := extensionSource{
		dir:     a.dir,
		as:      as,
		trust:   image.Trust{Keys: self.TrustKeys, Revoked: as.RevokedKeys},
		cgroup:  initScope,
		running: self.Version,
		tell:    a.info,
	}
	var l lease
	if readJSON(a.dir, leaseName, &l) == nil { // else it is not known which peers are near
		source.network = l.network()
	}
	err = a.lay(ctx, source, gets, loses)
	return changeText(gets, loses) + a.extensions.received(ctx, gets), err
}

// received says how many bytes came for extensions that were attached, and from whom.
func (e *extender) received(ctx context.Context, list []fleet.Extension) string {
	e.mu.Lock()
	on := slices.Clone(e.state.On)
	e.mu.Unlock()
	var all, peers int64
	for _, x := range on {
		if !slices.Contains(list, x.Extension) {
			continue
		}
		if s, err := x.client().Status(ctx, 0); err == nil { // it is only for people
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
func (e *extender) without(list []fleet.Extension) (out []attached) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.On = slices.DeleteFunc(e.state.On, func(x attached) bool {
		gone := slices.Contains(list, x.Extension)
		if gone {
			out = append(out, x)
		}
		return gone
	})
	return out
}

func (e *extender) add(fresh []attached) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.On = append(e.state.On, fresh...)
}

// leave notes that the device of an extension goes when nothing uses it any more.
func (a *agent) leave(x attached) {
	a.extensions.mu.Lock()
	a.extensions.state.Left = append(a.extensions.state.Left, formerRoot{x.Block, x.Device})
	a.extensions.mu.Unlock()
	a.keepExtensions()
	go a.leaveSwarmOf(x.client())
}

func (a *agent) keepExtensions() {
	a.extensions.mu.Lock()
	defer a.extensions.mu.Unlock()
	if err := writeJSON(a.dir, extensionsName, 0o600, a.extensions.state); err != nil {
		a.logf("%v", err)
	}
}

// retireExtensions detaches devices of extensions that were taken away, each when nothing uses it any more.
func (a *agent) retireExtensions(ctx context.Context) {
	for sleep(ctx, retireEvery) == nil {
		a.extensions.mu.Lock()
		left := slices.Clone(a.extensions.state.Left)
		a.extensions.mu.Unlock()
		for _, f := range left {
			err := f.detach()
			if errors.Is(err, os.ErrNotExist) { // there never was a device
				err = os.RemoveAll(f.Block)
			}
			if err != nil {
				if !errors.Is(err, unix.EBUSY) {
					a.logf("detach an extension: %v", err)
				}
				continue
			}
			a.logf("/dev/nbd%d, an extension of before, is detached", f.Device)
			a.extensions.mu.Lock()
			a.extensions.state.Left = slices.DeleteFunc(
				a.extensions.state.Left,
				func(o formerRoot) bool { return o == f },
			)
			a.extensions.mu.Unlock()
			a.keepExtensions()
		}
	}
}
