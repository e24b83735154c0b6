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

// watchSupervisor starts a new supervisor when the old one dies, since the two restart each other. The program file
// is on a tmpfs, so this needs no read of the root. It returns if the kernel has never read: init then gave up on the
// device and on this daemon.
func (d *blockDaemon) watchSupervisor(ctx context.Context) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		d.supervisor().drain()
		if ctx.Err() != nil || d.ledger.get(countReads) == 0 {
			return
		}
		d.log.Warn("the supervisor died, starting another")
		if err := d.startSupervisor(); err != nil {
			d.log.Error("supervisor cannot be started", "err", err)
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
