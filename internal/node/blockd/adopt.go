package blockd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/rootdaemon"
)

// watchSupervisor waits until the supervisor dies and starts another, so that neither of the two can be
// killed for good alone. Starting a process from here is safe: the program lies on a tmpfs, and the root that
// this daemon serves is out of its sight.
//
// It returns when the kernel never read anything: then init gave up on the device, and this daemon with it.
func (d *blockDaemon) watchSupervisor(ctx context.Context) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		d.supervisor().drain()
		if ctx.Err() != nil || d.ledger.get(countReads) == 0 {
			return
		}
		d.log.Warn("the supervisor died, starting another")
		if err := d.startSupervisor(); err != nil {
			d.log.Error("start supervisor", "err", err)
		} else {
			d.ledger.report(blockapi.Incident{Kind: blockapi.Reattached, Message: "the supervisor of the block " +
				"daemon died; another " +
				"takes over"})
		}
		time.Sleep(pause)
	}
}

func (d *blockDaemon) startSupervisor() error {
	ours, theirs, err := rootdaemon.SocketPair("control")
	if err != nil {
		return err
	}
	defer theirs.Close()
	conn, err := newControlConn(ours)
	if err != nil {
		return err
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		conn.Close()
		return fmt.Errorf("open own pidfd: %w", err)
	}
	pidfd := os.NewFile(uintptr(self), "pidfd")
	defer pidfd.Close()
	cfg := d.cfg
	cfg.Network = d.monitor.wanted()
	config, err := json.Marshal(cfg)
	var p *os.Process
	if err == nil {
		p, err = rootdaemon.Start(
			rootdaemon.Spec{Name: blockapi.SupervisorName, Binary: d.binary, Args: []string{adoptArg},
				Session: true, Stdin: config, Log: os.Stderr,
				Files: append([]*os.File{theirs, d.memory, pidfd}, cfg.Files()...)},
		)
	}
	if err != nil {
		conn.Close()
		return err
	}
	go p.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.control.Close()
	d.control = conn
	return nil
}
