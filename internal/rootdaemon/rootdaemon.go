package rootdaemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// rootDaemonEnv returns the whole environment of both daemons. An empty TZ means UTC. Without TZ Go would read
// /etc/localtime on the root that they serve.
func rootDaemonEnv() []string { return []string{"TZ="} }

// SpareFromOOM makes processes that are started before restore immune to the OOM killer. They inherit the score of
// this process, so they are immune from their first moment.
func SpareFromOOM() (restore func(), err error) {
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

// Spec describes the start of this program in another role.
type Spec struct {
	Name    string // argv[0]
	Binary  string
	Args    []string
	Chroot  string // "": the current root
	Dir     string // working directory in it; "": unchanged
	Session bool
	Cgroup  string // directory of a control group; "": that of this process
	Alone   bool   // the process does not get its program's path, so it cannot start other daemons
	Stdin   []byte
	Log     *os.File
	Files   []*os.File // inherited, from descriptor 3 on
}

// Start starts a process that the root depends on. Its standard input is a pipe that already holds all of Stdin.
func Start(s Spec) (*os.Process, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	defer in.Close()
	defer out.Close()
	// The pipe must hold the whole configuration, because its reader does not run yet.
	if _, err := unix.FcntlInt(out.Fd(), unix.F_SETPIPE_SZ, max(len(s.Stdin), 4096)); err != nil {
		return nil, fmt.Errorf("start %s: config of %d bytes: %w", s.Name, len(s.Stdin), err)
	}
	if _, err := out.Write(s.Stdin); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	argv := []string{s.Name}
	if !s.Alone {
		argv = append(append(argv, s.Binary), s.Args...)
	}
	sys := &syscall.SysProcAttr{Chroot: s.Chroot, Setsid: s.Session}
	if s.Cgroup != "" {
		group, err := os.Open(s.Cgroup)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", s.Name, err)
		}
		defer group.Close()
		sys.UseCgroupFD, sys.CgroupFD = true, int(group.Fd())
	}
	p, err := os.StartProcess(s.Binary, argv, &os.ProcAttr{
		Dir:   s.Dir,
		Env:   rootDaemonEnv(),
		Files: append([]*os.File{in, s.Log, s.Log}, s.Files...),
		Sys:   sys,
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	return p, nil
}

// Log returns a logger to standard error, which is the kernel's log. The kernel adds the time.
func Log(name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(prefixWriter{os.Stderr, name + ": "}, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
}

// prefixWriter puts a name before each line. Each write is one record of /dev/kmsg.
type prefixWriter struct {
	f      *os.File
	prefix string
}

func (w prefixWriter) Write(p []byte) (int, error) {
	if _, err := w.f.Write(append([]byte(w.prefix), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// timerSlack is by how many nanoseconds a thread may be woken late (PR_SET_TIMERSLACK, prctl(2)). Go's monitor thread
// wakes every 20 µs while another thread runs. This slack instead of the usual 50 µs saves a fifth of the processor
// time of a boot over a slow link.
const timerSlack = 1e6

// Become turns this process into one that the root can depend on: it ignores signals, its memory is locked, and its
// allocations do not wait for the root. The heap may grow by garbage percent between collections; limit is a soft
// limit in bytes.
func Become(limit int64, garbage int) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	runtime.GOMAXPROCS(min(2, runtime.NumCPU())) // this also stops the runtime from reading cgroup files
	debug.SetMemoryLimit(limit)
	debug.SetGCPercent(garbage)
	// PR_SET_IO_FLUSHER for all threads, and by inheritance for later ones. Linux 5.6 and later have it.
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_IO_FLUSHER, 1, 0)
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, timerSlack, 0)
	return LockMemory()
}

// LockMemory locks the pages of this process as they are touched (MCL_ONFAULT): locking all mappings of a Go program
// at once would take 80 MB that it never uses. It disables huge pages, so that a touch locks 4 KiB and not 2 MiB.
func LockMemory() error {
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) // fails on a kernel without huge pages
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("lock memory: %w", err)
	}
	return nil
}

// ResidentMemory returns the peak of the resident memory in bytes, from getrusage(2): the process has no /proc.
func ResidentMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss * 1024
}

// SocketPair returns two ends of a stream socket. Both are close-on-exec, so a child keeps open only the end that it
// is given.
func SocketPair(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%s socket: %w", name, err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}
