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

// rootDaemonEnv is the whole environment of both daemons. An empty TZ is UTC; without it Go would look for
// /etc/localtime, which is on the root that they serve.
func rootDaemonEnv() []string { return []string{"TZ="} }

// SpareFromOOM makes the processes started until restore immune to the out-of-memory killer. Setting it on
// this process and passing it on leaves no moment in which a daemon is not.
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

// Spec is one start of this program in another role.
type Spec struct {
	Name    string // argv[0]
	Binary  string
	Args    []string
	Chroot  string // "": stay where we are
	Dir     string // working directory after that; "": as it is
	Session bool
	Cgroup  string // directory of a control group; "": this process's
	Alone   bool   // it is not told its program's path, and so starts no other daemons
	Stdin   []byte
	Log     *os.File
	Files   []*os.File // from descriptor 3 on
}

// Start starts a process that the root depends on. Standard input is a pipe that holds all of Stdin.
func Start(s Spec) (*os.Process, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	defer in.Close()
	defer out.Close()
	// A configuration that the pipe cannot hold at once would wait for a reader that does not exist yet.
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

// Log writes to standard error, which is the kernel's log: it adds the time.
func Log(name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(prefixWriter{os.Stderr, name + ": "}, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
}

// prefixWriter puts a name before each line. One write is one record of /dev/kmsg.
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

// timerSlack is by how many nanoseconds a thread may be woken late (PR_SET_TIMERSLACK, prctl(2)). The runtime has a
// thread of its own that looks after the others each 20 µs while any of them runs, and a daemon on a slow link is
// woken for a moment a hundred times in a second: with the 50 µs that are usual, a boot at 1.5 Mb/s took 0.98 s of
// a processor, with this 0.76.
const timerSlack = 1e6

// Become makes this process one that the root file system can depend on: it gets no signal by
// accident, its memory is not paged out, and its allocations do not wait for the file system that waits for them.
// The garbage collector lets the heap grow by garbage percent, and keeps it below limit bytes where it can.
//
// Pages are locked as they are touched (MCL_ONFAULT). Locking all of a Go program's mappings at once takes
// 80 MB that it never uses; this way it is 10 to 20. So that a touch takes 4 KiB there are no huge pages: where they
// are made for every program, as in Debian, each would be 2 MiB that is cleared, and locked.
func Become(limit int64, garbage int) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	runtime.GOMAXPROCS(min(2, runtime.NumCPU())) // also stops the runtime from looking at cgroup files
	debug.SetMemoryLimit(limit)
	debug.SetGCPercent(garbage)
	// PR_SET_IO_FLUSHER for every thread, and by inheritance for those to come. Not there before Linux 5.6.
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_IO_FLUSHER, 1, 0)
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, timerSlack, 0)
	return LockMemory()
}

// LockMemory keeps what this process touches in memory, in pages of 4 KiB.
func LockMemory() error {
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) // a kernel without huge pages does not know it
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("lock memory: %w", err)
	}
	return nil
}

// ResidentMemory is how many bytes of this process are in memory. There is no /proc where it lives, so it
// is the peak, from getrusage.
func ResidentMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss * 1024
}

// SocketPair returns two ends of a stream socket. A child that is not given one of them does not keep it
// open: both are close-on-exec.
func SocketPair(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%s socket: %w", name, err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}
