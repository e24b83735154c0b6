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

// privateMark is the environment variable that Private sets before it executes the program again. Its value is the
// process ID.
const privateMark = "PANDO_MOUNTS_OF"

// Private gives this process its own mount namespace: no other process sees its mounts, and they end with it. Private
// executes the program again with the same arguments, because only that moves all threads. The second call returns.
// Call it first in main.
func Private() error {
	if os.Getenv(privateMark) == strconv.Itoa(os.Getpid()) {
		return os.Unsetenv(privateMark)
	}
	runtime.LockOSThread() // only this thread gets the namespace, and exec continues on it
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w (it needs root)", err)
	}
	if err := hideFromOthers(); err != nil {
		return err
	}
	env := append(withoutMark(os.Environ(), privateMark), privateMark+"="+strconv.Itoa(os.Getpid()))
	if err := syscall.Exec("/proc/self/exe", os.Args, env); err != nil {
		return fmt.Errorf("execute the program again: %w", err)
	}
	return nil
}

// hideFromOthers stops mounts from propagating to and from the namespace that this one was copied from.
func hideFromOthers() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return nil
}

// withoutMark returns an environment without one variable.
func withoutMark(env []string, name string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, name+"=") {
			out = append(out, v)
		}
	}
	return out
}
