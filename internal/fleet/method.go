package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// BootMethod is how a running node goes to its next boot.
type BootMethod string

// The methods.
const (
	MethodAuto       BootMethod = "auto"        // the shortest method that the changes allow
	MethodSoftReboot BootMethod = "soft-reboot" // the running kernel continues with another root: systemd 254 and later
	MethodKexec      BootMethod = "kexec"       // another kernel, without firmware
	MethodReboot     BootMethod = "reboot"      // with firmware
)

// BootMethods lists the methods.
func BootMethods() []BootMethod {
	return []BootMethod{MethodAuto, MethodSoftReboot, MethodKexec, MethodReboot}
}

// Effective returns m, or the default if it is empty.
func (m BootMethod) Effective() BootMethod {
	if m == "" {
		return MethodReboot
	}
	return m
}

// Validate returns an error for an unknown method.
func (m BootMethod) Validate() error {
	if slices.Contains(BootMethods(), m.Effective()) {
		return nil
	}
	return fmt.Errorf("method %q: use auto, soft-reboot, kexec or reboot", string(m))
}

// SoftSystemd is the first version of systemd that can switch to another root under the running kernel.
const SoftSystemd = 254

// SystemdOf returns the leading number of a package version such as "257.8-1~deb13u1", 0 if there is none.
func SystemdOf(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	n, _ := strconv.Atoi(version[:end]) // no digits: 0
	return n
}

// Change is the difference between what a node runs and its next boot, as far as boot methods depend on it.
type Change struct {
	Architecture string // of the node
	Kernel       bool   // another kernel, or other drivers for it
	Args         bool   // other kernel arguments, or the present ones are not on record
	Running      int    // version of the running systemd; 0: unknown
	Next         int    // version of the next boot's systemd; 0: unknown
	// what the node keeps that a soft reboot cannot take along, such as "directories on a volume"; "": nothing
	Keeps string
	Cache bool // the group keeps a cache on a disk
	Agent bool // the server has another release of the node's program
}

// NotSoft returns why a soft reboot is not possible, or "".
func (c Change) NotSoft() string {
	switch {
	case c.Kernel:
		return "the kernel or its drivers change"
	case c.Args:
		return "the kernel arguments change"
	case c.Running == 0, c.Next == 0:
		return "it is not known which systemd the versions have"
	case c.Running < SoftSystemd:
		return fmt.Sprintf("systemd %d runs, and a soft reboot needs %d", c.Running, SoftSystemd)
	case c.Next < SoftSystemd:
		return fmt.Sprintf("the next version has systemd %d, and a soft reboot needs %d", c.Next, SoftSystemd)
	case c.Keeps != "":
		return "the node has " + c.Keeps + ", which a soft reboot does not hand over"
	case c.Cache:
		return "the group keeps a cache on a disk, which two block daemons cannot share"
	case c.Agent:
		return "the node's program is of another release than the server's"
	}
	return c.notTried()
}

// notTried returns a reason for architectures on which soft reboot and kexec were never tested, "" for others.
func (c Change) notTried() string {
	if c.Architecture != "amd64" {
		return "it was not tried on " + c.Architecture
	}
	return ""
}

// Choose returns the boot method for the requested method m, and the reason. If a requested soft reboot is impossible,
// the method is a reboot.
func (m BootMethod) Choose(c Change) (BootMethod, string) {
	soft := c.NotSoft()
	switch m = m.Effective(); {
	case m == MethodSoftReboot && soft != "":
		return MethodReboot, "no soft-reboot: " + soft
	case m != MethodAuto:
		return m, "as was asked for"
	case soft == "":
		return MethodSoftReboot, "the kernel stays as it is"
	case c.notTried() != "":
		return MethodReboot, "without firmware " + c.notTried()
	}
	return MethodKexec, soft
}
