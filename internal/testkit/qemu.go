package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// OVMF as installed by Debian's packages ovmf and qemu-efi-aarch64. The variables are copied for each machine.
const (
	ovmfCode  = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	ovmfVars  = "/usr/share/OVMF/OVMF_VARS_4M.fd"
	aavmfCode = "/usr/share/AAVMF/AAVMF_CODE.fd"
	aavmfVars = "/usr/share/AAVMF/AAVMF_VARS.fd"
)

// qemuArgs returns QEMU's command line. The default is one CPU: a server's boot is mostly one thread, and two emulated
// machines at a time then use two cores.
func qemuArgs(m *Machine, taps []string) ([]string, error) {
	c := m.Config
	memory := c.Memory
	if memory == 0 {
		memory = 768
	}
	cpus := max(1, c.CPUs)
	firmware, nic, err := firmwareArgs(c)
	if err != nil {
		return nil, err
	}
	args := []string{
		"-name", c.Name, "-nodefaults", "-no-user-config", "-display", "none",
		// Without graphics SeaBIOS and the iPXE ROM also write to the serial port.
		"-machine", c.board(), "-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(memory),
		"-chardev", "socket,id=serial,server=on,wait=off,path=" + m.keyboard() + ",logfile=" + m.Console.Path,
		"-serial", "chardev:serial",
		"-qmp", "unix:" + m.monitor() + ",server=on,wait=off",
	}
	if !c.Poor {
		args = append(args, "-device", "virtio-rng-pci")
	}
	if c.SMBIOS != "" {
		args = append(args, "-smbios", "type=1,"+c.SMBIOS)
	}
	if c.Clock != 0 {
		args = append(args, "-rtc", "base="+time.Now().Add(c.Clock).UTC().Format("2006-01-02T15:04:05"))
	}
	if len(taps) > 1 { // the first device gets the lower slot, and so the lower number in the guest
		args = append(
			args,
			"-netdev",
			tapArg("second", taps[1]),
			"-device",
			"e1000,netdev=second,romfile=,mac="+c.Second.String(),
		)
	}
	if c.Screen {
		args = append(args, "-device", "VGA,edid=on,xres=1280,yres=800")
	}
	if c.Stick != "" || c.CacheBoots { // the card boots nothing by itself, as one without PXE
		nic = strings.TrimSuffix(nic, ",romfile=") + ",romfile="
	} else {
		nic += ",bootindex=1"
	}
	args = append(args, "-netdev", tapArg("lan", taps[0]), "-device", nic+",netdev=lan,mac="+c.MAC.String())
	args = append(args, stickArgs(c)...)
	args = append(args, cacheArgs(c)...)
	args = append(args, m.tpmArgs()...)
	args = append(args, directArgs(c.Direct)...)
	args = append(args, accelArgs(c)...)
	return append(args, firmware...), nil
}

// board returns QEMU's machine type.
func (c MachineConfig) board() string {
	if c.Firmware == UEFIARM64 {
		return "virt"
	}
	return "q35,graphics=off"
}

// stickArgs returns the arguments for the USB stick that a machine boots from.
func stickArgs(c MachineConfig) []string {
	if c.Stick == "" {
		return nil
	}
	return []string{
		"-drive",
		"file=" + c.Stick + ",format=raw,if=none,id=stick,cache=writeback",
		"-device",
		"qemu-xhci",
		"-device",
		"usb-storage,drive=stick,bootindex=1",
	}
}

// cacheArgs returns the arguments for the cache disk: a SATA disk, a stick or a card. Firmware does not boot from it
// unless CacheBoots is set.
func cacheArgs(c MachineConfig) []string {
	if c.Cache == "" {
		return nil
	}
	drive := "file=" + c.Cache + ",format=raw,if=none,id=cache,cache=writeback"
	if c.CacheReadOnly { // QEMU's SATA disks cannot be read-only
		return []string{"-drive", drive + ",readonly=on", "-device", "virtio-blk-pci,drive=cache"}
	}
	if c.CacheUSB {
		return []string{
			"-drive",
			drive,
			"-device",
			"qemu-xhci,id=cacheport",
			"-device",
			"usb-storage,drive=cache,id=cache,bus=cacheport.0",
		}
	}
	if c.CacheCard {
		return []string{"-drive", drive, "-device", "sdhci-pci", "-device", "sd-card,drive=cache"}
	}
	device := "ide-hd,drive=cache,bus=ide.0,model=TESTDISK"
	if c.CacheBoots {
		device += ",bootindex=1"
	}
	return []string{"-drive", drive, "-device", device}
}

func directArgs(d Direct) (args []string) {
	if d.Kernel == "" {
		return nil
	}
	args = []string{"-kernel", d.Kernel, "-initrd", d.Initrd, "-append", strings.Join(d.Args, " ")}
	if d.Disk != "" {
		args = append(
			args,
			"-drive",
			"file="+d.Disk+",format=raw,if=none,id=root,readonly=on",
			"-device",
			"virtio-blk-pci,drive=root",
		)
	}
	return args
}

func tapArg(id, tap string) string {
	return "tap,id=" + id + ",ifname=" + tap + ",script=no,downscript=no"
}

func firmwareArgs(c MachineConfig) (args []string, nic string, err error) {
	nic = c.NIC
	if nic == "" {
		nic = "virtio-net-pci"
	}
	switch c.Firmware {
	case BIOS:
		return nil, nic, nil
	case UEFI, UEFIARM64:
		code, from, owner := ovmfCode, ovmfVars, "ovmf"
		if c.Firmware == UEFIARM64 {
			code, from, owner = aavmfCode, aavmfVars, "qemu-efi-aarch64"
		}
		vars := filepath.Join(c.Dir, c.Name+".vars.fd")
		if err := copyFile(vars, from); err != nil {
			return nil, "", fmt.Errorf("%w (Debian's package %s has it)", err, owner)
		}
		return []string{
			"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + code,
			"-drive", "if=pflash,format=raw,unit=1,file=" + vars,
			// Otherwise PXE over IPv6 comes first, and waits a minute in vain.
			"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=no",
		}, nic + ",romfile=", nil
	}
	return nil, "", fmt.Errorf("unknown firmware %q", c.Firmware)
}

// accelArgs uses KVM if the processor has it. /dev/kvm is not enough: in some virtual machines it can be opened, but a
// guest hangs at its first instruction.
func accelArgs(c MachineConfig) []string {
	if c.Firmware == UEFIARM64 { // "max" has pointer authentication, which takes half of the emulator's time
		return []string{"-accel", "tcg,thread=multi", "-cpu", "cortex-a72"}
	}
	switch {
	case c.Poor && HasKVM():
		return []string{"-accel", "kvm", "-cpu", poor}
	case c.Poor:
		return []string{"-accel", "tcg,thread=multi", "-cpu", poor}
	case HasKVM():
		return []string{"-accel", "kvm", "-cpu", "host"}
	}
	if c.Counted {
		return []string{"-accel", "tcg,thread=single", "-icount", "shift=0,sleep=on", "-cpu", counted}
	}
	return []string{"-accel", "tcg,thread=multi", "-cpu", emulated}
}

// emulated is the emulated processor. QEMU 7.2 emulates cmpxchg16b wrongly for its use in Linux 6.12. Without erms a
// kernel does not clear pages byte by byte, which is slow under emulation.
const emulated = "max,-cx16,-erms"

// poor is a processor with only the features that Linux for amd64 requires.
const poor = "qemu64,-cx16"

// counted is the processor if the clock counts instructions: a model of 2017, as far as QEMU emulates it. QEMU 10 has
// its instructions for SHA-256, QEMU 7.2 has not. With "max" a kernel hangs on QEMU 7.2 when instructions are counted.
const counted = "EPYC-v1,-cx16,-erms"

// KernelArgs returns the arguments that an image's kernel needs here. On a busy host the kernel's calibration of the
// emulated time stamp counter may be wrong by a factor of fifty, so the arguments give its rate. If that is unknown the
// kernel uses the HPET, which is slower to read.
func KernelArgs() []string {
	args := []string{"console=ttyS0"}
	if HasKVM() {
		return args
	}
	if khz := tscKHz(); khz != 0 {
		return append(args, "tsc=reliable", "tsc_early_khz="+strconv.FormatInt(khz, 10))
	}
	return append(args, "tsc=unstable", "clocksource=hpet")
}

// CountedKernelArgs returns the arguments for a machine whose clock counts instructions.
func CountedKernelArgs() []string {
	if HasKVM() {
		return KernelArgs()
	}
	return []string{"console=ttyS0", "tsc=reliable", "tsc_early_khz=" + strconv.Itoa(countedKHz)}
}

// countedKHz is the rate of the time stamp counter if the clock counts instructions: each takes 1 ns.
const countedKHz = 1_000_000

// HasKVM reports whether guests run with hardware virtualisation.
func HasKVM() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !hasFlag(info, "vmx") && !hasFlag(info, "svm") {
		return false
	}
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

func hasFlag(cpuinfo []byte, flag string) bool {
	for line := range bytes.Lines(cpuinfo) {
		name, flags, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimSpace(name)) != "flags" {
			continue
		}
		for _, f := range bytes.Fields(flags) {
			if string(f) == flag {
				return true
			}
		}
		return false
	}
	return false
}

func contains(cmdline []byte, name string) bool { return bytes.Contains(cmdline, []byte(name)) }

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
