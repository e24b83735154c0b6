package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/disk"
	"pando/internal/hardware"
	"pando/internal/problem"
	"pando/internal/systemd"
)

// After a command the node reports more often for a while, because the next command often follows soon.
const (
	commandRecent = 2 * time.Minute
	commandEvery  = time.Second
	commandMost   = 2 * time.Minute // for one command, with its report
)

// commands carries out node commands. The server repeats a command until it has the report, and the node does the
// command once.
type commands struct {
	who    *identity
	sender *sender
	next   NextBoot
	disks  DiskPreparer
	root   string // mount point of the overlay

	mu   sync.Mutex
	last string // id
	at   time.Time
}

// begin carries out a new command in the background. nil means no command.
func (c *commands) begin(what *api.NodeCommand) {
	if what == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == what.ID {
		return
	}
	c.last, c.at = what.ID, time.Now()
	go c.do(*what)
}

// recent reports whether a command arrived within commandRecent.
func (c *commands) recent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.at.IsZero() && time.Since(c.at) < commandRecent
}

// do carries out a command and reports the result. It repeats a report that does not arrive until commandMost has
// passed.
func (c *commands) do(e api.NodeCommand) {
	ctx, cancel := context.WithTimeout(context.Background(), commandMost)
	defer cancel()
	rep := api.NodeCommandReport{Boot: c.who.Self().Boot, ID: e.ID}
	if err := c.one(ctx, e, &rep); err != nil {
		rep.Error, rep.Hint = err.Error(), problem.HintOf(err)
	}
	if e.Kind == api.ListDisks || e.Kind == api.PrepareCache {
		rep.Disks = disk.List(hardware.Sysfs, "/dev", "/proc")
	}
	for {
		err := c.sender.control.Call(ctx, "/v1/node/errand", "Bearer "+c.who.Self().Session, rep, nil)
		if err == nil || control.ForGood(err) || ctx.Err() != nil {
			break
		}
		c.sender.logf("result of a node command cannot be reported: %v", err)
		select {
		case <-ctx.Done():
		case <-time.After(commandEvery):
		}
	}
	// These commands take longer, or end the session that the report needs.
	switch e.Kind {
	case api.SoftRebootNode:
		c.next.SoftReboot(context.Background())
	case api.StageNode:
		c.next.StageAhead(context.Background())
	}
}

func (c *commands) one(ctx context.Context, e api.NodeCommand, rep *api.NodeCommandReport) (err error) {
	switch e.Kind {
	case api.ListDisks:
		return nil
	case api.PrepareCache:
		c.sender.logf("prepare %s as a cache (dry run: %v)", e.Device, e.DryRun)
		err := c.disks.Prepare(hardware.Sysfs, "/dev", "/proc", e)
		if err == nil && !e.DryRun {
			c.sender.Info(
				"the disk "+e.Device+" was made the cache of this node; it is used from the next boot on where "+
					"the settings of the node have cache disk",
				"",
			)
		}
		return err
	case api.SyncConfig:
		rep.Files, err = c.syncConfig(ctx, e.DryRun)
		return err
	case api.SoftRebootNode, api.StageNode:
		return nil // done after the report
	case api.KexecNode:
		return c.kexec(ctx)
	case api.RebootNode, api.PowerOffNode:
		_, err := systemd.Systemctl(ctx, string(e.Kind)) // the kinds are systemctl verbs
		return err
	}
	return errors.New("this node's agent does not know how to do that: it is of another release than the server")
}
