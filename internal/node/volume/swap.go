package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/nbd"
	"pando/internal/systemd"
)

// swapArg is the argument of the role Name for swap space.
const swapArg = "swap"

// Files with what a restarted process has to know. A running process does not read them: they are on a tmpfs, whose
// pages may be swapped out.
const (
	swappinessFile = "/proc/sys/vm/swappiness"
	swappinessKept = "swappiness"  // the value before an outage
	swapServerKept = "swap-server" // the server of the swap space
)

// swapKeeping is the additional work for swap space. Its methods do nothing on nil, which stands for a state volume.
type swapKeeping struct {
	dir        string
	sysctl     string // swappinessFile
	log        *slog.Logger
	server     string // server of the swap space; "": none yet
	swappiness string // value before the outage; "": no outage
	replaces   bool   // the next attached device replaces lost swap space
}

// newSwapKeeping continues from the files that an earlier process wrote to dir.
func newSwapKeeping(dir, sysctl string, log *slog.Logger) *swapKeeping {
	s := &swapKeeping{dir: dir, sysctl: sysctl, log: log}
	for name, to := range map[string]*string{swapServerKept: &s.server, swappinessKept: &s.swappiness} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			*to = string(b)
		}
	}
	return s
}

// prepareForOutage locks the files that this process and the block daemons need. If their first use were during an
// outage, they would wait for the swap space that has them. One lock suffices, because all processes share the pages.
func prepareForOutage(dir string, log *slog.Logger) {
	// Units and scripts are locked too: once lost with the swap space, they could not be read.
	for _, pattern := range []string{dir + "/*", "/run/systemd/system/*", "/run/systemd/system/*/*"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			if err := lockFile(f); err != nil {
				log.Warn("file that an outage needs cannot be locked in memory", "err", err)
			}
		}
	}
}

// lockFile locks a file of a tmpfs in memory until this process ends.
func lockFile(path string) error {
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		err = unix.Mlock(b)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return nil
}

func (s *swapKeeping) note(name, text string) {
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.log.Warn("swap note cannot be written", "err", err)
	}
}

// ask returns the servers to contact. If the swap space is in use, only its own server counts: another one does not
// have it.
func (s *swapKeeping) ask(servers []string, attached bool) []string {
	if s == nil || !attached || s.server == "" {
		return servers
	}
	return []string{s.server}
}

// asked records the server of the swap space.
func (s *swapKeeping) asked(server string) {
	if s != nil && s.server != server {
		s.server = server
		s.note(swapServerKept, server)
	}
}

// away makes the kernel avoid swapping (swappiness 0) while the server is unreachable. Otherwise any process that
// needs a page, even systemd, would wait for the server. Swapped-out programs wait, and those above their slice's
// memory.high are slowed down.
func (s *swapKeeping) away() {
	if s == nil || s.swappiness != "" {
		return
	}
	was, err := os.ReadFile(s.sysctl)
	if err == nil {
		s.swappiness = string(bytes.TrimSpace(was))
		s.note(swappinessKept, s.swappiness)
		err = os.WriteFile(s.sysctl, []byte("0"), 0)
	}
	if err != nil {
		s.log.Warn("swapping cannot be suspended", "err", err)
	}
}

// back restores the swappiness from before away.
func (s *swapKeeping) back() {
	if s == nil || s.swappiness == "" {
		return
	}
	err := os.WriteFile(s.sysctl, []byte(s.swappiness), 0)
	if err = errors.Join(err, os.Remove(filepath.Join(s.dir, swappinessKept))); err != nil {
		s.log.Warn("swapping cannot be resumed", "err", err)
	}
	s.swappiness = ""
}

// lost gives up swap space that the server reports as not found. Programs that need one of its pages get SIGBUS, and
// never wrong memory.
func (s *swapKeeping) lost(device nbd.KernelDevice, attached bool, err error) error {
	var r *control.Refused
	if s == nil || !attached || !errors.As(err, &r) || r.Err == nil || r.Err.Code != api.NotFound {
		return err
	}
	s.log.Error("the swap space is lost: programs get a bus error for what was in it", "err", err)
	err = errors.Join(err, device.Disconnect())
	path, e := unix.BytePtrFromString(blockapi.DeviceNode(device.Index))
	if e != nil {
		return errors.Join(err, e)
	}
	// The kernel keeps the device attached while it is in use. After swapoff a new one can be attached.
	if _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
		return errors.Join(err, fmt.Errorf("swapoff /dev/nbd%d: %w", device.Index, errno))
	}
	s.replaces = true
	return err
}

// fresh restarts the unit that puts the device into use, if the device replaces a lost one. For the first device of a
// boot nothing is needed.
func (s *swapKeeping) fresh(ctx context.Context) {
	if s == nil || !s.replaces {
		return
	}
	if _, err := systemd.Systemctl(ctx, "restart", "--no-block", "pando-swap.service"); err != nil {
		s.log.Warn("new swap space cannot be put into use", "err", err)
		return
	}
	s.replaces = false
}
