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

// swapArg is the argument of VolumeName for swap space.
const swapArg = "swap"

// Where what has to be known after this process was killed is kept. While it runs it reads none of it: they are on
// a tmpfs, whose pages can be swapped out.
const (
	swappinessFile = "/proc/sys/vm/swappiness"
	swappinessKept = "swappiness"  // what it was before an outage
	swapServerKept = "swap-server" // who gave the swap space
)

// swapKeeping is what differs for swap space from a volume with state: no method does anything for nil.
type swapKeeping struct {
	dir        string
	sysctl     string // swappinessFile
	log        *slog.Logger
	server     string // who gave it; "": nobody yet
	swappiness string // before the outage; "": there is none
	replaces   bool   // what is attached next stands in the place of what was lost
}

// newSwapKeeping takes over what a process before this one knew.
func newSwapKeeping(dir, sysctl string, log *slog.Logger) *swapKeeping {
	s := &swapKeeping{dir: dir, sysctl: sysctl, log: log}
	for name, to := range map[string]*string{swapServerKept: &s.server, swappinessKept: &s.swappiness} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			*to = string(b)
		}
	}
	return s
}

// prepareForOutage locks the files that this process and the block daemons need: those who use them for the first
// time during an outage would wait for the swap space that they are in. To lock them here is enough, as all have
// the same pages.
func prepareForOutage(dir string, log *slog.Logger) {
	// What systemd and shells read of a file that was lost with the swap space is an error, or nothing.
	for _, pattern := range []string{dir + "/*", "/run/systemd/system/*", "/run/systemd/system/*/*"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			if err := lockFile(f); err != nil {
				log.Warn("the way back to the swap space may be swapped out itself", "err", err)
			}
		}
	}
}

// lockFile keeps a file of a tmpfs in memory for as long as this process lives.
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
		s.log.Warn("note for the time after this process", "err", err)
	}
}

// ask is whom to ask: swap space that is in use is with the server that gave it, and another one's word that it has
// none means nothing.
func (s *swapKeeping) ask(servers []string, attached bool) []string {
	if s == nil || !attached || s.server == "" {
		return servers
	}
	return []string{s.server}
}

// asked notes who gave it.
func (s *swapKeeping) asked(server string) {
	if s != nil && s.server != server {
		s.server = server
		s.note(swapServerKept, server)
	}
}

// away has the kernel free memory in other ways while nothing can be swapped: who needs a page would wait for the
// server, be it systemd. Programs that were swapped out wait, and those that want more than their slice may have
// are slowed down (memory.high).
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
		s.log.Warn("leave swap space alone", "err", err)
	}
}

// back ends what away began.
func (s *swapKeeping) back() {
	if s == nil || s.swappiness == "" {
		return
	}
	err := os.WriteFile(s.sysctl, []byte(s.swappiness), 0)
	if err = errors.Join(err, os.Remove(filepath.Join(s.dir, swappinessKept))); err != nil {
		s.log.Warn("use swap space again", "err", err)
	}
	s.swappiness = ""
}

// lost gives swap space up that the server says is gone: the kernel fails who waits for a page of it, with a bus
// error and not with wrong memory.
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
	// The kernel counts the device as attached for as long as it is in use; afterwards it is free for a fresh one.
	if _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(path)), 0, 0); errno != 0 {
		return errors.Join(err, fmt.Errorf("swapoff /dev/nbd%d: %w", device.Index, errno))
	}
	s.replaces = true
	return err
}

// fresh has a device put into use that takes the place of one that was lost. The first one of a boot needs nobody
// for that.
func (s *swapKeeping) fresh(ctx context.Context) {
	if s == nil || !s.replaces {
		return
	}
	if _, err := systemd.Systemctl(ctx, "restart", "--no-block", "pando-swap.service"); err != nil {
		s.log.Warn("use fresh swap space", "err", err)
		return
	}
	s.replaces = false
}
