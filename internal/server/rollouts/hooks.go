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

// Hooks are programs in a directory of the server. Only root on this machine can put them there, and operators name
// them: an operator's token cannot run anything else.
const (
	hookMost   = 10 * time.Minute // the longest run; a longer one counts as failed and runs again
	hookAgain  = 15 * time.Second // pause after a failed run
	hooksAtOne = 8                // runs at a time for one rollout
	hookSays   = 300              // bytes that are kept of its last output
)

// hookRuns holds the runs of hooks for one rollout.
type hookRuns struct {
	running map[rollout.Hook]bool
	ended   map[rollout.Hook]rollout.Result
	at      map[rollout.Hook]time.Time // time of the last failure
}

// results returns the results of the hooks that have ended.
func (d *Runner) results(id string) map[rollout.Hook]rollout.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs[id] == nil {
		return nil
	}
	return maps.Clone(d.runs[id].ended)
}

// runHook starts a hook, unless it runs already, has failed within hookAgain, or too many run.
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
			return // the server stops: the hook was killed and will run again
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
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its child processes are killed too
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out := &tail{}
	c.Stdout, c.Stderr = out, out // with one writer for both, exec writes from one goroutine
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

// hookEnv returns the environment variables of a hook.
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
		func(tx *registry.Tx) error { // the hook of a node without an address gets none
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

// Write accepts all of p.
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
