package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/systemd"
)

// maxKexec bounds a kernel and an initramfs, in bytes. Each is in memory twice for a moment.
const maxKexec = 256 << 20

// kexec starts the next boot without firmware. If that fails, the node reboots through its firmware, because the
// server has begun the next boot already.
func (c *commands) kexec(ctx context.Context) error {
	if err := c.loadKexec(ctx); err != nil {
		c.sender.Info("the node reboots through its firmware, since it cannot start a kernel: "+err.Error(), "")
		_, err := systemd.Systemctl(ctx, "reboot")
		return err
	}
	_, err := systemd.Systemctl(ctx, "kexec")
	return err
}

// loadKexec fetches the next kernel, initramfs and command line from the server, and loads them (kexec_file_load(2)).
func (c *commands) loadKexec(ctx context.Context) error {
	stream, err := c.sender.control.Stream(
		ctx,
		"/v1/node/kexec",
		"Bearer "+c.who.Self().Session,
		api.NodeKexec{Boot: c.who.Self().Boot},
	)
	if err != nil {
		return err
	}
	if stream == nil {
		return errors.New("the server has sent nothing")
	}
	defer stream.Close()
	r := bufio.NewReader(stream)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	var next api.NextBoot
	if err := json.Unmarshal(line, &next); err != nil {
		return err
	}
	kernel, err := inMemory(r, "kernel", next.Kernel)
	if err != nil {
		return err
	}
	defer kernel.Close()
	initramfs, err := inMemory(r, "initramfs", next.Initramfs)
	if err != nil {
		return err
	}
	defer initramfs.Close()
	if err := unix.KexecFileLoad(int(kernel.Fd()), int(initramfs.Fd()), next.Line, 0); err != nil {
		return fmt.Errorf("load the kernel: %w", err)
	}
	return nil
}

// inMemory copies n bytes of a stream into a memfd.
func inMemory(r io.Reader, name string, n int64) (*os.File, error) {
	if n <= 0 || n > maxKexec {
		return nil, fmt.Errorf("%s of %d bytes", name, n)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := io.CopyN(f, r, n); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}
