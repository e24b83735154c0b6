package trace

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// known describes a failure that is recognized by its stage and its message.
type known struct {
	stage Stage
	says  string // a part of its message; "": any message
	fault Fault
	text  string // what happened, before the message
	do    string // what to do if the failure has no hint of its own
}

// knowns are the known failures. The first that matches counts.
var knowns = []known{
	{DHCP, "", NoLease, "got no address", "look at the range that is given out, and at `pando doctor`"},
	{BootFile, "no boot file for", NoBootFile, "its firmware can be given nothing to start",
		"install the boot loaders for it (Debian's package ipxe), or switch its firmware to UEFI or BIOS on x86"},
	{
		BootFile,
		"",
		BootFileLost,
		"its boot file did not arrive",
		"is UDP open between the node and this server, for port 69 and for ports above 1023?",
	},
	{
		Script,
		"this machine is",
		WrongArchitecture,
		"its version is for another processor",
		"put it into a group that boots an image of its architecture",
	},
	{
		Script,
		"",
		NothingToBoot,
		"cannot be told what to boot",
		"`pando image list` shows what there is, `pando group show` what its group wants",
	},
	{Kernel, "", TransferBroken, "its kernel was not sent whole", "look at its cable, its switch port and its memory"},
	{
		Initramfs,
		"refused to",
		Refused,
		"its initramfs was refused",
		"somebody else may use its address: look at who has it",
	},
	{
		Initramfs,
		"",
		TransferBroken,
		"its initramfs was not sent whole",
		"look at its cable, its switch port and its memory",
	},
	{
		Modules,
		"",
		NoDriver,
		"its drivers were not loaded",
		"is the kernel's modules package in the image? build it again",
	},
	{Link, "no wired network adapter", NoDriver, "no network adapter has a driver",
		"add the driver's package (firmware-*) to the recipe and build the image again; `pando node show` names " +
			"adapters without one"},
	{
		Link,
		"no driver",
		NoDriver,
		"its network adapter has no driver",
		"`pando node show` names it; add the driver's package (firmware-*) to the recipe",
	},
	{Link, "", NoLink, "its adapters see no link", "check cable, switch port and VLAN"},
	{
		Address,
		"",
		NoLease,
		"got no address after its kernel had started",
		"is a DHCP server on this network, for this port's VLAN?",
	},
	{
		Register,
		"registration", // not "refused": so is a connection to a closed port
		Refused,
		"the server did not take it for the node it says it is",
		"reboot it; if that goes on, look who else has its address",
	},
	{
		Register,
		"check assignment",
		SignatureRefused,
		"what the server told it is not signed by this site",
		"does another Pando answer at this address?",
	},
	{Register, "", Unreachable, "it does not reach the server", "is port 8443 of the server open in its firewall?"},
	{
		Manifest,
		"signature",
		SignatureRefused,
		"the version is not signed by a key that this site trusts",
		"`pando key list` shows them; one of them has to sign it",
	},
	{
		Manifest,
		"the version is for",
		WrongArchitecture,
		"its version is for another processor",
		"put it into a group that boots an image of its architecture",
	},
	{
		Manifest,
		"has digest",
		SignatureRefused,
		"the manifest is not the one that it was told to boot",
		"`pando store check`, then build or copy the version again",
	},
	{
		Manifest,
		"",
		Unreachable,
		"no source gives it its version's manifest",
		"is port 8480 of the server open in its firewall?",
	},
	{
		Device,
		"",
		DeviceFailed,
		"its root device was not attached",
		"`pando image list` shows whether the version is whole, `pando store check` whether its objects are",
	},
	{
		Root,
		"",
		MountFailed,
		"its root was not mounted",
		"does the image's kernel have erofs and overlay? `pando store check` looks for damage",
	},
	{
		Config,
		"",
		NotPrepared,
		"its config files were not put in place",
		"is the writable memory of the node large enough (write limit of its group)?",
	},
	{SwitchRoot, "", NoInit, "the image's init does not start", "install systemd-sysv in the image and build it again"},
	{
		Booted,
		"node state",
		StateAway,
		"what it keeps cannot be put in place",
		"is that server or disk on, and reachable from the node? The boot goes on by itself when it answers; `pando " +
			"group show` has what the group keeps, and where",
	},
	{
		Booted,
		"",
		EmergencyMode,
		"systemd did not go on",
		"fix what failed in the image, mostly a line of /etc/fstab or a mount unit for something that this node does " +
			"not have (pando image shell); the node restarts by itself when its group's reboot-after has passed",
	},
}

// ended returns the diagnosis of a boot that ended before its default target: the machine went down, or started again.
func ended(c course) Diagnosis {
	s, gone := silences[c.Stage]
	d := Diagnosis{Fault: s.fault, Stage: c.Broken, Since: c.failure.Time, Text: s.text + "; " + c.Failure, Do: s.do}
	switch {
	case gone:
	case c.Stage == SwitchRoot:
		d.Fault, d.Text = NotStarted, "the image's init ran, and its default target was not reached: "+c.Failure
		d.Do = cmp.Or(c.Hint, "its journal and its console say why")
	default:
		d.Fault, d.Text = Hangs, "came as far as "+string(c.Stage)+": "+c.Failure
		d.Do = cmp.Or(c.Hint, "its console says what it waited for")
	}
	return d
}

// broken returns the diagnosis of a failed boot.
func broken(c course) Diagnosis {
	if c.failure.Stage == Shutdown {
		return ended(c)
	}
	d := Diagnosis{
		Fault: Hangs,
		Stage: c.Broken,
		Since: c.failure.Time,
		Text:  "failed at " + string(c.Broken) + ": " + c.Failure,
		Do:    c.Hint,
	}
	for _, k := range knowns {
		if k.stage == c.Broken && strings.Contains(c.Failure, k.says) {
			d.Fault, d.Text, d.Do = k.fault, k.text+": "+c.Failure, cmp.Or(c.Hint, k.do)
			break
		}
	}
	return d
}

func unitsFailed(c course, units []string) Diagnosis {
	what := "1 unit failed"
	if len(units) != 1 {
		what = fmt.Sprintf("%d units failed", len(units))
	}
	return Diagnosis{UnitsFailed, Booted, c.Ready, "it is up, and " + what + ": " + strings.Join(units, ", "),
		"systemctl status " + units[0] + " on the node"}
}

// silence is the meaning of no event after a stage.
type silence struct {
	fault Fault
	text  string
	do    string
}

// silences has the stages of firmware and boot loader, after which a machine may simply be gone.
var silences = map[Stage]silence{
	DHCP: {GoneInFirmware, "got an address and then asked for no boot file",
		"is network boot first in its firmware's order, and Secure Boot off? did another boot server answer? " +
			"`pando doctor` looks for one"},
	BootFile: {GoneInLoader, "got its boot file and then asked for no script",
		"the boot loader did not start or finds no network: is Secure Boot off, is port 8480 open, does the " +
			"switch let traffic through at once (portfast)?"},
	Script: {
		GoneAfterScript,
		"got its script and then asked for no kernel",
		"look at its screen: the boot loader says there what it cannot fetch",
	},
	Kernel: {
		GoneAfterScript,
		"got its kernel and then asked for no initramfs",
		"look at its screen; is there memory enough for kernel and initramfs?",
	},
	Initramfs: {GoneInKernel, "got kernel and initramfs and was not heard of since",
		"look at its screen: a panic, no driver for its adapter (its next boot is sent all of them), or no way to " +
			"port 8443 of the server"},
}

// scriptUnreached is the hint if iPXE runs and its request for the script does not arrive.
const scriptUnreached = "does a firewall on the server or on the way keep its port (8480) closed? `pando doctor` as " +
	"root probes it; has the machine another address than that network's?"

// patience is how long a stage may take if its usual time is unknown.
var patience = map[Stage]time.Duration{Kernel: 3 * time.Minute, Initramfs: 3 * time.Minute, Booted: 10 * time.Minute}

// How long a stage may take: a multiple of its usual time, and bounds.
const (
	usualTimes     = 3
	usualLeast     = 45 * time.Second
	usualElse      = 2 * time.Minute
	addressInVain  = time.Minute // firmware tries for about half a minute
	longestSilence = 15 * time.Minute
)

// allowed returns how long a stage may take.
func (f Facts) allowed(s Stage) time.Duration {
	if u := f.Usual[s]; u > 0 {
		return min(max(usualTimes*u, usualLeast), max(longestSilence, usualTimes*u))
	}
	return cmp.Or(patience[s], usualElse)
}

// silent returns how long a node usually sends nothing, from its kernel's start until its first report.
func (f Facts) silent() (sum time.Duration) {
	for _, s := range []Stage{Init, Modules, Link, Address, Register} {
		sum += f.Usual[s]
	}
	return sum
}

// SilentAfter is how long after its last report a booted node counts as silent. A running node reports about once a
// minute.
const SilentAfter = 4 * time.Minute

// isLate reports whether a boot has made no progress for too long.
func (p Progress) isLate(facts Facts, now time.Time) bool {
	if p.Waits {
		return false
	}
	_, quiet, longest := p.quiet(facts, now)
	return quiet > longest
}

// quiet returns the stage that a boot should reach next, how long it has made no progress, and how long that may last.
func (p Progress) quiet(facts Facts, now time.Time) (next Stage, quiet, longest time.Duration) {
	at, open := p.Stage, p.Kinds.of(p.Stage) == Begin
	quiet = now.Sub(later(p.Moved, p.Started))
	if at == DHCP && open {
		return at, quiet, addressInVain
	}
	next = at
	if !open {
		next = after(at, facts.Usual)
	}
	if at == Initramfs && !open {
		facts.Usual = map[Stage]time.Duration{next: facts.silent()}
	}
	return next, quiet, facts.allowed(next)
}

// late returns the diagnosis of a boot that has made no progress for too long.
func late(c course, facts Facts, now time.Time) Diagnosis {
	at, open := c.Stage, c.Kinds.of(c.Stage) == Begin
	next, quiet, _ := c.quiet(facts, now)
	d := Diagnosis{Stage: at, Since: c.Moved}
	if at == DHCP && open {
		d.Fault, d.Text = NoLease, "asked for an address and was seen to get none"
		d.Do = "does the site's DHCP server have one for it? Where Pando gives addresses, look at the range: " +
			"`pando doctor`"
		if c.lastFact != "" {
			d.Text += "; " + c.lastFact
		}
		return d
	}
	if at == Initramfs && !open {
		facts.Usual = map[Stage]time.Duration{next: facts.silent()}
	}
	usual := ""
	if u := facts.Usual[next]; u > 0 {
		usual = fmt.Sprintf(" (usually %s)", u.Round(100*time.Millisecond))
	}
	for_ := quiet.Round(time.Second)
	s, firmware := silences[at]
	switch {
	case firmware && !open && Rank(at) < Rank(Script) && c.scriptAt != "":
		d.Fault, d.Text, d.Do = GoneInLoader, fmt.Sprintf(
			"its boot loader runs, was told that its script is at %s, and has not asked for it, for %s%s",
			c.scriptAt, for_, usual), scriptUnreached
	case firmware && !open:
		d.Fault, d.Text, d.Do = s.fault, fmt.Sprintf("%s, for %s%s", s.text, for_, usual), s.do
	case at == SwitchRoot:
		d.Fault, d.Text = NotStarted, fmt.Sprintf(
			"the image's init runs for %s%s and its default target is not reached",
			for_,
			usual,
		)
		d.Do = "a unit waits or fails: look at its screen, or `systemctl list-jobs` on the node"
	default:
		d.Fault, d.Text, d.Do = Hangs, fmt.Sprintf(
			"hangs at %s for %s%s",
			next,
			for_,
			usual,
		), "its screen says what it waits for"
	}
	if c.lastFact != "" {
		d.Text += "; it said last: " + c.lastFact
	}
	return d
}

// after returns the next stage that boots of this machine usually have, or the next of all stages.
func after(s Stage, usual map[Stage]time.Duration) Stage {
	all := order[:Rank(Booted)+1]
	i := Rank(s) + 1
	for j := i; j < len(all); j++ {
		if usual[all[j]] > 0 {
			return all[j]
		}
	}
	return all[min(i, len(all)-1)]
}
