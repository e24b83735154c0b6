package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/nbd"
)

// BlockStart starts the two daemons behind the root's block device. It is for init, before anything is
// mounted from that device.
type BlockStart struct {
	Dir    string // "/run/pando": a tmpfs that holds this program as Binary; both daemons are chrooted into it
	Binary string // path of the program below Dir, "/pando-init"
	Config BlockConfig
	Log    *os.File // lines of both daemons: /dev/kmsg
	Cgroup string   // directory of the control group that they begin in; "": that of who starts them
}

// File descriptors of a supervisor that init starts, beside standard input (the BlockConfig as JSON),
// output and error. A supervisor that a block daemon starts has the daemon's control socket, the ledger and
// the daemon's pidfd instead (see adopt.go).
const (
	superReadyFD   = 3 // it writes one line when the kernel has its device, or why it gave up
	superTimeoutFD = 4 // /sys/block/nbdN/queue/io_timeout, open for writing
	superDiskFD    = 5 // and on: the cache's disk, and what tells the processors' times, if there are
)

// rootDaemonEnv is the whole environment of both daemons. An empty TZ is UTC; without it Go would look for
// /etc/localtime, which is on the root that they serve.
func rootDaemonEnv() []string { return []string{"TZ="} }

// Start returns when the supervisor runs. The device must exist: module nbd loaded with nbds_max=1
// max_part=0. Both daemons get an OOM score of -1000, a session of their own and the names SupervisorName
// and BlockName.
func (s BlockStart) Start() (*BlockProcess, error) {
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
	restore, err := spareFromOOM()
	if err != nil {
		ready.Close()
		return nil, err
	}
	defer restore()
	p, err := startRootDaemon(
		daemonStart{name: SupervisorName, binary: s.Binary, chroot: s.Dir, dir: "/", session: true, cgroup: s.Cgroup,
			stdin: config, log: s.Log, files: append([]*os.File{readyWrite, timeout}, s.Config.files()...)},
	)
	if err != nil {
		ready.Close()
		return nil, err
	}
	return &BlockProcess{process: p, ready: ready, dir: s.Dir,
		kernel: nbd.KernelDevice{Index: s.Config.Device}}, nil
}

// openTimeout opens the io_timeout of a device for writing. A device other than the first is there once it was
// attached, and whoever has it attached writes to it then.
func openTimeout(device int) (*os.File, error) {
	f, err := os.OpenFile(timeoutFile(device), os.O_WRONLY, 0)
	if device > 0 && errors.Is(err, os.ErrNotExist) {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("block device: %w (is module nbd loaded?)", err)
	}
	return f, nil
}

func timeoutFile(device int) string { return fmt.Sprintf("/sys/block/nbd%d/queue/io_timeout", device) }

// spareFromOOM makes the processes started until restore immune to the out-of-memory killer. Setting it on
// this process and passing it on leaves no moment in which a daemon is not.
func spareFromOOM() (restore func(), err error) {
	const file = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte("-1000"), 0)
	}
	if err != nil {
		return nil, fmt.Errorf("spare the block daemons from the OOM killer: %w", err)
	}
	return func() { _ = os.WriteFile(file, bytes.TrimSpace(before), 0) }, nil
}

// daemonStart is one start of this program in another role.
type daemonStart struct {
	name    string // argv[0]
	binary  string
	args    []string
	chroot  string // "": stay where we are
	dir     string // working directory after that; "": as it is
	session bool
	cgroup  string // directory of a control group; "": this process's
	alone   bool   // it is not told its program's path, and so starts no other daemons
	stdin   []byte
	log     *os.File
	files   []*os.File // from descriptor 3 on
}

func startRootDaemon(s daemonStart) (*os.Process, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	defer in.Close()
	defer out.Close()
	// A configuration that the pipe cannot hold at once would wait for a reader that does not exist yet.
	if _, err := unix.FcntlInt(out.Fd(), unix.F_SETPIPE_SZ, max(len(s.stdin), 4096)); err != nil {
		return nil, fmt.Errorf("start %s: config of %d bytes: %w", s.name, len(s.stdin), err)
	}
	if _, err := out.Write(s.stdin); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	argv := []string{s.name}
	if !s.alone {
		argv = append(append(argv, s.binary), s.args...)
	}
	sys := &syscall.SysProcAttr{Chroot: s.chroot, Setsid: s.session}
	if s.cgroup != "" {
		group, err := os.Open(s.cgroup)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", s.name, err)
		}
		defer group.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(group.Fd())
	}
	p, err := os.StartProcess(s.binary, argv, &os.ProcAttr{
		Dir:   s.dir,
		Env:   rootDaemonEnv(),
		Files: append([]*os.File{in, s.log, s.log}, s.files...),
		Sys:   sys,
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	return p, nil
}

// BlockProcess is a supervisor that init started.
type BlockProcess struct {
	process *os.Process
	ready   *os.File
	dir     string
	kernel  nbd.KernelDevice
}

// Ready waits until the kernel has its device, the supervisor gave up, or ctx ends. In the last case the
// error says what the block daemon is waiting for.
func (p *BlockProcess) Ready(ctx context.Context) error {
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
		return errors.New("the block supervisor ended without a word (see the kernel's log)")
	}
	return errors.New(line)
}

// reason is the newest thing that went wrong, for an error.
func (p *BlockProcess) reason() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	st, err := BlockClient{Socket: filepath.Join(p.dir, BlockSocket)}.Status(ctx, 0)
	if err != nil || len(st.Incidents) == 0 {
		return ""
	}
	i := st.Incidents[len(st.Incidents)-1]
	return fmt.Sprintf(": %s %s: %s", i.Kind, i.Source, i.Message)
}

// Stop kills both daemons and detaches the device; only before it is mounted, to try again.
func (p *BlockProcess) Stop() {
	// The block daemon is in its supervisor's process group, so neither sees the other die and replaces it.
	_ = unix.Kill(-p.process.Pid, unix.SIGKILL)
	_, _ = p.process.Wait()
	_ = p.ready.Close()
	_ = p.kernel.Disconnect() // may never have been connected
}

// Release lets go of the supervisor: from here on it belongs to the node.
func (p *BlockProcess) Release() {
	_ = p.ready.Close()
	_ = p.process.Release()
}
