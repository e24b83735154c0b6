package mount

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// privateMark is the variable that a process which Private has replaced finds in its environment: its own number.
const privateMark = "PANDO_MOUNTS_OF"

// Private gives this process mounts of its own: nobody else sees what it mounts, and nothing is left when it dies. The
// process is replaced by itself, with the same arguments, since only that moves all of its threads; the second time, it
// returns. Call it before anything was done.
func Private() error {
	if os.Getenv(privateMark) == strconv.Itoa(os.Getpid()) {
		return os.Unsetenv(privateMark)
	}
	runtime.LockOSThread() // it is this thread that gets the namespace, and goes on with the new program
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w (it needs root)", err)
	}
	if err := hideFromOthers(); err != nil {
		return err
	}
	env := append(withoutMark(os.Environ(), privateMark), privateMark+"="+strconv.Itoa(os.Getpid()))
	if err := syscall.Exec("/proc/self/exe", os.Args, env); err != nil {
		return fmt.Errorf("start again with mounts of its own: %w", err)
	}
	return nil
}

// hideFromOthers ends the sharing of mounts with the namespace that this one was copied from.
func hideFromOthers() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return nil
}

// withoutMark is an environment without a variable.
func withoutMark(env []string, name string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			out = append(out, v)
		}
	}
	return out
}
