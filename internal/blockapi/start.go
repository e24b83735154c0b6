package blockapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/nbd"
	"pando/internal/rootdaemon"
)

// Start describes the two daemons behind the root's block device. Init starts them before anything is mounted from
// that device.
type Start struct {
	Dir    string // "/run/pando": a tmpfs that holds this program as Binary; both daemons are chrooted into it
	Binary string // path of the program below Dir, "/pando-init"
	Config Config
	Log    *os.File // log of both daemons: /dev/kmsg
	Cgroup string   // directory of the control group that they start in; "": the group of the calling process
}

// Start starts the supervisor, which starts the block daemon. The device must exist: module nbd loaded with
// nbds_max=1 max_part=0. Both daemons get an OOM score of -1000, their own session, and the names SupervisorName and
// DaemonName.
func (s Start) Start() (*Process, error) {
	if err := s.Config.Validate(); err != nil {
		return nil, err
	}
	config, err := json.Marshal(s.Config)
	if err != nil {
		return nil, fmt.Errorf("block config: %w", err)
	}
	timeout, err := openTimeout(s.Config.Device)
	if err != nil {
		return nil, err
	}
	defer timeout.Close()
	ready, readyWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", SupervisorName, err)
	}
	defer readyWrite.Close()
	restore, err := rootdaemon.SpareFromOOM()
	if err != nil {
		ready.Close()
		return nil, err
	}
	defer restore()
	p, err := rootdaemon.Start(
		rootdaemon.Spec{
			Name:    SupervisorName,
			Binary:  s.Binary,
			Chroot:  s.Dir,
			Dir:     "/",
			Session: true,
			Cgroup:  s.Cgroup,
			Stdin:   config,
			Log:     s.Log,
			Files:   append([]*os.File{readyWrite, timeout}, s.Config.Files()...),
		},
	)
	if err != nil {
		ready.Close()
		return nil, err
	}
	return &Process{process: p, ready: ready, dir: s.Dir,
		kernel: nbd.KernelDevice{Index: s.Config.Device}}, nil
}

// Process is a supervisor that Start started.
type Process struct {
	process *os.Process
	ready   *os.File
	dir     string
	kernel  nbd.KernelDevice
}

// Ready waits until the kernel has its device, the supervisor ends, or ctx ends. If ctx ends, the error has the block
// daemon's newest incident.
func (p *Process) Ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = p.ready.SetReadDeadline(time.Now()) })
	defer stop()
	b, err := io.ReadAll(p.ready)
	line := strings.TrimSpace(string(b))
	switch {
	case line == "ready":
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w%s", context.Cause(ctx), p.reason())
	case err != nil:
		return fmt.Errorf("block daemon: %w", err)
	case line == "":
		return errors.New("the block supervisor ended without a message (see the kernel's log)")
	}
	return errors.New(line)
}

// reason returns the newest incident of the block daemon as the end of an error text, "" if there is none.
func (p *Process) reason() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := Client{Socket: filepath.Join(p.dir, Socket)}.Status(ctx, 0)
	if err != nil || len(st.Incidents) == 0 {
		return ""
	}
	i := st.Incidents[len(st.Incidents)-1]
	return fmt.Sprintf(": %s %s: %s", i.Kind, i.Source, i.Message)
}

// Stop kills both daemons and disconnects the device, for the next attempt. The device must not be mounted.
func (p *Process) Stop() {
	// The block daemon is in its supervisor's process group. One signal kills both, so neither can restart the other.
	_ = unix.Kill(-p.process.Pid, unix.SIGKILL)
	_, _ = p.process.Wait()
	_ = p.ready.Close()
	_ = p.kernel.Disconnect() // the device may never have been connected
}

// Release closes init's descriptors of the supervisor, which goes on running.
func (p *Process) Release() {
	_ = p.ready.Close()
	_ = p.process.Release()
}
