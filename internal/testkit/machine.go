package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
)

// Firmware is the firmware of a machine.
type Firmware string

// The kinds of firmware.
const (
	BIOS Firmware = "bios" // SeaBIOS and the iPXE in the network card's ROM
	UEFI Firmware = "uefi" // OVMF and its own PXE client; the card has no ROM

	UEFIARM64 Firmware = "uefi-arm64" // the same of an emulated arm64 machine
)

// MachineConfig describes a machine without a disk.
type MachineConfig struct {
	Name     string
	Firmware Firmware
	MAC      fleet.MAC
	NIC      string    // QEMU's device name; "": virtio-net-pci. OVMF has a driver for virtio only
	Second   fleet.MAC // MAC of an additional e1000 without a ROM on the same bridge, in the first PCI slot; zero: none
	Memory   int       // MiB; 0: 768
	Stick    string    // image of a USB stick that it boots from; "": it boots from the network
	CPUs     int       // 0: 1
	// under emulation its clock advances by 1 ns per instruction, and in real time while it waits; see
	// CountedKernelArgs
	Counted bool
	Clock   time.Duration // how far its clock is ahead at power-on; negative: behind
	Screen  bool          // it has a graphics card, for Screenshot
	Direct  Direct        // a kernel that QEMU starts itself; zero: the machine boots through its firmware
	Net     *Net

	Cache         string // image of a disk that it does not boot from; "": none
	CacheReadOnly bool
	CacheBoots    bool // it boots from that disk
	CacheUSB      bool // that disk is a USB stick, which PullCache removes
	CacheCard     bool // that disk is an SD card on its own controller; its size must be a power of two

	// its processor is of 2003, without RDRAND and SSE4.2, and there is no random number generator
	Poor bool

	SMBIOS string // added to QEMU's "-smbios type=1", such as "serial=S1,product=P"; "": QEMU's defaults

	TPM string // directory with the state of its TPM, made if missing; "": no TPM

	Dir string // for console, monitor socket and firmware variables; made if missing
}

// Direct is a kernel that QEMU starts itself, without firmware.
type Direct struct {
	Kernel, Initrd string   // files
	Args           []string // kernel arguments
	Disk           string   // file for a read-only disk; "": none
}

// Machine is a QEMU process: a guest without a disk that boots from the network, by BIOS with the iPXE in the ROM of
// its network card, or by UEFI with OVMF's own PXE and no card ROM.
type Machine struct {
	Config  MachineConfig
	Console Console

	cmd    *exec.Cmd
	serial net.Conn      // used by Type; nil before its first use
	done   chan struct{} // closed when QEMU has ended; err is set then
	err    error
}

// StartMachine switches the machine on. The caller must call Close.
func StartMachine(c MachineConfig) (*Machine, error) {
	m := &Machine{Config: c, Console: Console{filepath.Join(c.Dir, c.Name+".console")}, done: make(chan struct{})}
	taps, err := m.prepare()
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", c.Name, err)
	}
	args, err := qemuArgs(m, taps)
	if err == nil {
		err = m.startTPM()
	}
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", c.Name, err)
	}
	log, err := os.Create(filepath.Join(c.Dir, c.Name+".qemu.log"))
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", c.Name, err)
	}
	defer log.Close()
	m.cmd = c.Net.Command(context.Background(), c.program(), args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("machine %s: start QEMU: %w", c.Name, err)
	}
	go func() {
		m.err = m.cmd.Wait()
		close(m.done)
	}()
	return m, nil
}

// program returns the QEMU program for the machine's architecture.
func (c MachineConfig) program() string {
	if c.Firmware == UEFIARM64 {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// prepare makes the directory and a tap for each network card, the first card's first.
func (m *Machine) prepare() (taps []string, err error) {
	c := m.Config
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	for _, stale := range []string{m.Console.Path, m.monitor(), m.keyboard()} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	for cards := m.cards(); len(taps) < cards; {
		tap, err := c.Net.Tap()
		if err != nil {
			return nil, err
		}
		taps = append(taps, tap)
	}
	return taps, nil
}

func (m *Machine) cards() int {
	if m.Config.Second.IsZero() {
		return 1
	}
	return 2
}

// PID returns QEMU's process id, because `ip netns exec` replaces itself by the program.
func (m *Machine) PID() int { return m.cmd.Process.Pid }

// Done is closed when QEMU has ended.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Close switches the machine off at once.
func (m *Machine) Close() error {
	select {
	case <-m.done:
	default:
		if err := m.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("machine %s: %w", m.Config.Name, err)
		}
		<-m.done
	}
	return nil
}

func (m *Machine) keyboard() string { return filepath.Join(m.Config.Dir, m.Config.Name+".serial") }

// Type types text on the serial console. It must not be called concurrently.
func (m *Machine) Type(text string) error {
	if m.serial == nil {
		conn, err := net.Dial("unix", m.keyboard())
		if err != nil {
			return fmt.Errorf("machine %s: type on its console: %w", m.Config.Name, err)
		}
		m.serial = conn
		// Console reads the log file. The socket must be read, too, or the guest's writes would block.
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
	}
	if _, err := io.WriteString(m.serial, text); err != nil {
		return fmt.Errorf("machine %s: type on its console: %w", m.Config.Name, err)
	}
	return nil
}

// WaitOff waits until the guest has switched the machine off.
func (m *Machine) WaitOff(ctx context.Context) error {
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return fmt.Errorf("machine %s is still on: %w; its console ends with:\n%s",
			m.Config.Name, context.Cause(ctx), m.Console.Tail(15))
	}
}

// EndProcess ends a process that an earlier run left: first by SIGTERM, then by SIGKILL. The name must be part of its
// command line, so that another process with the same id is left alone.
func EndProcess(pid int, name string) error {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !contains(cmdline, name) {
		return nil
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.Kill(pid, signal); err != nil {
			return nil // it has ended
		}
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(
			50 * time.Millisecond) {
			if unix.Kill(pid, 0) != nil {
				return nil
			}
		}
	}
	return fmt.Errorf("process %d (%s) does not end", pid, name)
}
