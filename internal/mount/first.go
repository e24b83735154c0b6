package mount

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// IsInside reports whether this process is the first one in a Command's namespaces. If so, main must call Inside and
// do nothing else.
func IsInside() bool { return os.Getenv(insideMark) != "" && os.Getpid() == 1 }

// Inside is the work of the first process in a Command's namespaces. It returns the exit status. The command is a
// child of this process, because PID 1 of a namespace has no default actions for signals and must reap orphans.
func Inside() int {
	status, err := inside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pando: inside:", err)
		return failed
	}
	return status
}

func inside() (int, error) {
	in := os.NewFile(configFD, "configuration")
	var c insideConfig
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return 0, fmt.Errorf("read the configuration: %w", err)
	}
	in.Close()
	if err := c.enter(); err != nil {
		return 0, err
	}
	return c.run()
}

// enter makes the tree the root. It opens files of the tree only afterwards, when no link can lead out of it.
func (c *insideConfig) enter() error {
	if err := hideFromOthers(); err != nil {
		return err
	}
	tmp := -1
	if c.Tmp != "" {
		var err error
		if tmp, err = unix.OpenTree(unix.AT_FDCWD, c.Tmp, unix.OPEN_TREE_CLONE|unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("open %s: %w", c.Tmp, err)
		}
	}
	if err := pivot(c.Root); err != nil {
		return err
	}
	if tmp >= 0 {
		if err := unix.MoveMount(tmp, "", unix.AT_FDCWD, "/tmp", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount /tmp: %w", err)
		}
		unix.Close(tmp)
	}
	if err := mountKernel(); err != nil {
		return err
	}
	if c.Hostname != "" {
		if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
			return fmt.Errorf("set host name: %w", err)
		}
	}
	return c.putFiles()
}

// pivot makes a directory the root and hides all other mounts.
func pivot(root string) error {
	if err := unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", root, err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // this mounts the old root on top of the new one
		return fmt.Errorf("make %s the root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("hide the old root: %w", err)
	}
	return os.Chdir("/")
}

// mountKernel mounts the file systems of a running system on empty directories of the tree: /proc, /sys, /run and
// /dev.
func mountKernel() error {
	const plain = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		kind, dir string
		flags     uintptr
		data      string
	}{
		{"proc", "/proc", plain | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", plain | unix.MS_NOEXEC | unix.MS_RDONLY, ""},
		{"tmpfs", "/run", plain, "mode=755"},
		{"tmpfs", "/dev", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k"},
		{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"},
		{"tmpfs", "/dev/shm", plain, "mode=1777"},
	} {
		if strings.HasPrefix(m.dir, "/dev/") {
			if err := os.Mkdir(m.dir, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	if err := os.Mkdir("/run/lock", 0o777|os.ModeSticky); err != nil {
		return err
	}
	return makeDevices()
}

func makeDevices() error {
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		if err := unix.Mknod("/dev/"+d.name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make /dev/%s: %w", d.name, err)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// putFiles mounts files over those of the tree. If the tree's file is a link into /run, as resolv.conf often is, the
// target is created instead. Other links stay as they are.
func (c *insideConfig) putFiles() error {
	const dir = "/run/pando-inside"
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for i, f := range c.Files {
		from, to := filepath.Join(dir, strconv.Itoa(i)), "/"+f.Path
		if err := os.WriteFile(from, f.Content, f.Mode); err != nil {
			return err
		}
		if target, err := os.Readlink(to); err == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(to), target)
			}
			if strings.HasPrefix(target, "/run/") {
				_ = os.MkdirAll(filepath.Dir(target), 0o755) // if this fails, name resolution fails with its own error
				_ = os.Rename(from, target)
			}
			continue
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", to, err)
		}
	}
	return nil
}

// run starts the command, passes SIGTERM on to it, and reaps children until the command ends. It returns the
// command's status.
func (c *insideConfig) run() (int, error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if err := os.Unsetenv(insideMark); err != nil {
		return 0, err
	}
	for _, v := range c.Env {
		if name, value, _ := strings.Cut(v, "="); name == "PATH" {
			if err := os.Setenv(name, value); err != nil { // LookPath uses it
				return 0, err
			}
		}
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return 0, fmt.Errorf("%s: there is no such program in the tree", c.Args[0])
	}
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	pid, err := syscall.ForkExec(path, c.Args, &syscall.ProcAttr{Dir: dir, Env: c.Env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM { // the terminal sends the others to the command itself
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait for %s: %w", path, err)
		case ended == pid:
			return statusOf(status), nil
		}
	}
}
