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

// Private gives this process its own mount namespace: nobody else sees its mounts, and they end with it. Private
// executes the program again with the same arguments, because only that moves all threads; the second call returns.
// Call it first.
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
