package rollouts

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pando/internal/command"
	"pando/internal/fleet"
	"pando/internal/hooks"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/rollout"
)

// Hooks are programs in a directory of the server's, named by operators and put there by whoever is root on this
// machine: an operator's token is no way to run something else here.
const (
	hookMost   = 10 * time.Minute // one run; what takes longer says "not yet" and is asked again
	hookAgain  = 15 * time.Second // after a run that failed
	hooksAtOne = 8                // runs at a time, of one rollout
	hookSays   = 300              // bytes of what it printed last
)

// hookRuns are the runs of hooks for one rollout.
type hookRuns struct {
	running map[rollout.Hook]bool
	ended   map[rollout.Hook]rollout.Result
	at      map[rollout.Hook]time.Time // when it failed
}

// results are those of the hooks that have ended.
func (d *Runner) results(id string) map[rollout.Hook]rollout.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs[id] == nil {
		return nil
	}
	return maps.Clone(d.runs[id].ended)
}

// runHook begins a run, unless it runs, or failed a moment ago.
func (d *Runner) runHook(ctx context.Context, r fleet.Rollout, h rollout.Hook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	runs := d.runs[r.ID]
	if runs == nil {
		runs = &hookRuns{map[rollout.Hook]bool{}, map[rollout.Hook]rollout.Result{}, map[rollout.Hook]time.Time{}}
		d.runs[r.ID] = runs
	}
	if runs.running[h] || len(runs.running) >= hooksAtOne || time.Since(runs.at[h]) < hookAgain {
		return
	}
	runs.running[h] = true
	d.doing.Go(func() {
		res := d.hook(ctx, r, h)
		if ctx.Err() != nil {
			return // it was killed with the server, and is run again
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(runs.running, h)
		runs.ended[h] = res
		if !res.OK {
			runs.at[h] = time.Now()
		}
		d.lookNow()
	})
}

// hook runs a hook to its end.
func (d *Runner) hook(ctx context.Context, r fleet.Rollout, h rollout.Hook) rollout.Result {
	path, err := hooks.Find(d.hooks, h.Name)
	if err != nil {
		return rollout.Result{Says: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, hookMost)
	defer cancel()
	c := exec.CommandContext(ctx, path)
	c.Dir = "/"
	c.Env = append(os.Environ(), d.hookEnv(ctx, r, h)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it started ends with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out := &tail{}
	c.Stdout, c.Stderr = out, out // one writer: exec then writes from one goroutine
	err = c.Run()
	says := lastLine(out.String())
	switch {
	case ctx.Err() != nil:
		says = fmt.Sprintf("it has not ended in %s", hookMost)
	case err != nil:
		says = strings.TrimSuffix(command.Ended(ctx, err).Error()+": "+says, ": ")
	}
	if err != nil {
		d.log.Info("hook failed", "rollout", r.ID, "hook", h.Name, "for", h.Use, "node", h.Node, "says", says)
	}
	return rollout.Result{OK: err == nil, Says: says}
}

// hookEnv is what a hook is told.
func (d *Runner) hookEnv(ctx context.Context, r fleet.Rollout, h rollout.Hook) []string {
	env := map[string]string{
		"USE":     string(h.Use),
		"ROLLOUT": r.ID,
		"GROUP":   r.Group,
		"NODE":    h.Node,
		"BOOT":    string(h.Boot),
		"FROM":    string(r.From),
		"TO":      string(r.To),
	}
	for _, n := range r.Nodes {
		if n.Node == h.Node {
			env["WAVE"], env["TARGET"] = strconv.Itoa(n.Wave), string(n.Target)
		}
	}
	_ = d.registry.View(
		ctx,
		func(tx *registry.Tx) error { // a node without an address is one whose hook has to do without
			boots, err := tx.Boots(registry.BootFilter{Node: h.Node, Limit: 1})
			if err == nil && len(boots) > 0 && boots[0].Addr.IsValid() {
				env["ADDRESS"] = boots[0].Addr.String()
			}
			return err
		},
	)
	var out []string
	for k, v := range env {
		out = append(out, "PANDO_"+k+"="+v)
	}
	return out
}

// tail keeps the end of a program's output.
type tail struct{ bytes.Buffer }

// Write takes all of p.
func (t *tail) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if t.Len() > 4*hookSays {
		t.Next(t.Len() - 2*hookSays)
	}
	return n, err
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	s = s[strings.LastIndexByte(s, '\n')+1:]
	return httpapi.Clip(s, hookSays)
}
