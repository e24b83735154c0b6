package writelayer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pando/internal/problem"
)

// lowerModule loads a module with the root's own modprobe before the root is writable. It is for modules that are not
// in the initramfs.
func (w *Layer) lowerModule(ctx context.Context, name string, options ...string) error {
	program := ""
	for _, p := range []string{"/usr/sbin/modprobe", "/sbin/modprobe", "/usr/bin/modprobe", "/bin/modprobe"} {
		if _, err := os.Lstat(w.Lower + p); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		return &problem.Problem{Err: fmt.Errorf("the image has no modprobe, for %s", name), Hint: "install kmod in it"}
	}
	shown := []string{"/proc", "/sys"}
	defer func() {
		for _, d := range shown {
			_ = unix.Unmount(w.Lower+d, unix.MNT_DETACH) // it may not be mounted
		}
	}()
	for _, d := range shown {
		if err := unix.Mount(d, w.Lower+d, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("show %s to the root's programs: %w", d, err)
		}
	}
	c := exec.CommandContext(ctx, program, append([]string{"-q", name}, options...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: w.Lower}
	c.Dir, c.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	var output bytes.Buffer
	c.Stderr = &output
	if err := c.Run(); err != nil {
		return &problem.Problem{
			Err:  fmt.Errorf("the kernel has no module %s: %w %s", name, err, strings.TrimSpace(output.String())),
			Hint: "has the image its kernel's modules below /lib/modules?",
		}
	}
	return nil
}
