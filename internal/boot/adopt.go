package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
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
			d.ledger.report(Incident{Kind: Reattached, Message: "the supervisor of the block daemon died; another " +
				"takes over"})
		}
		time.Sleep(pause)
	}
}

func (d *blockDaemon) startSupervisor() error {
	ours, theirs, err := socketPair("control")
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
	cfg.Network = d.keeper.wanted()
	config, err := json.Marshal(cfg)
	var p *os.Process
	if err == nil {
		p, err = startRootDaemon(daemonStart{name: SupervisorName, binary: d.binary, args: []string{adoptArg},
			session: true, stdin: config, log: os.Stderr, files: append([]*os.File{theirs, d.memory, pidfd}, cfg.files()...)})
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
