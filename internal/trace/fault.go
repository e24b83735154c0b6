package trace

import "time"

// Fault is a kind of trouble that a boot can have.
type Fault string

// The faults that Diagnose distinguishes.
const (
	NoLease           Fault = "no-lease"           // no server gave it an address
	NoBootFile        Fault = "no-boot-file"       // there is no boot file for its firmware
	BootFileLost      Fault = "boot-file-lost"     // the boot file did not arrive
	NothingToBoot     Fault = "nothing-to-boot"    // its group has no image, or one that does not exist
	WrongArchitecture Fault = "wrong-architecture" // the version is for another processor
	TransferBroken    Fault = "transfer-broken"    // kernel or initramfs was broken off
	NoDriver          Fault = "no-driver"          // no network adapter has a driver
	NoLink            Fault = "no-link"            // the adapters report no link
	Refused           Fault = "refused"            // the server refused it
	SignatureRefused  Fault = "signature-refused"  // no trusted key signed what it should boot
	Unreachable       Fault = "unreachable"        // no source answers
	DeviceFailed      Fault = "device-failed"      // the root device was not attached
	MountFailed       Fault = "mount-failed"       // root or overlay was not mounted
	NotPrepared       Fault = "not-prepared"       // config files were not put in place
	NoInit            Fault = "no-init"            // the image's init does not start
	Panic             Fault = "kernel-panic"       // the kernel reported a panic
	RootLost          Fault = "root-lost"          // no source answered reads of its root any more
	StateAway         Fault = "state-away"         // its node state is not available
	EmergencyMode     Fault = "emergency-mode"     // systemd went into emergency mode
	UnitsFailed       Fault = "units-failed"       // it is up, but units failed
	GoneInFirmware    Fault = "gone-in-firmware"   // it has an address and does not request a boot file
	GoneInLoader      Fault = "gone-in-loader"     // it has its boot file and does not request a script
	GoneAfterScript   Fault = "gone-after-script"  // it has its script and does not request a kernel
	GoneInKernel      Fault = "gone-in-kernel"     // it has kernel and initramfs, and does not report
	Hangs             Fault = "hangs"              // it takes much longer than usual
	NotStarted        Fault = "not-started"        // the image's init runs, but does not reach its default target
)

// AttrPanic is the attribute of an event that reports a kernel panic.
const AttrPanic = "panic"

// AttrRootLost is the attribute of an event that reports that a node restarts because reads of its root get no answer.
const AttrRootLost = "root_lost"

// AttrOff is the attribute of the end of a boot whose machine switches itself off and stays off.
const AttrOff = "off"

// AttrScriptAt is the attribute of an event that reports that iPXE runs and was told where its script is: the URL.
const AttrScriptAt = "script_at"

// AttrKernelPort is the attribute of an event by which a node says at which port it serves the kernel and the initramfs
// of its boot to other machines.
const AttrKernelPort = "kernel_port"

// AttrPrefix is the attribute of the same event with the length of the prefix of the node's subnet.
const AttrPrefix = "prefix"

// AttrServedKernel and AttrServedInitramfs of the same event name what it serves: object ids of 64 hex digits.
const (
	AttrServedKernel    = "served_kernel"
	AttrServedInitramfs = "served_initramfs"
)

// AttrRefused is the attribute of an event by which a machine says that a node did not deliver its kernel or initramfs.
// It has the node's name.
const AttrRefused = "refused_from"

// AttrArgs is the attribute of the end of stage Script that has the kernel arguments of the boot.
const AttrArgs = "args"

// AttrCache is the attribute of an event that reports a node's cache on a disk: its device, or "none".
const AttrCache = "cache"

// AttrIncident is the attribute of an event that reports a repaired fault below a node's root: its kind.
const AttrIncident = "incident"

// WaitsFor begins the report of a waiting boot. The units and devices that systemd waits for follow.
const WaitsFor = "systemd waits for "

// Diagnosis is a fault of a boot: what happened, and what to do about it.
type Diagnosis struct {
	Fault Fault
	Stage Stage
	Since time.Time // when the boot last made progress, or when it failed
	Text  string
	Do    string
}

// Facts is the input of Diagnose besides a boot's events.
type Facts struct {
	FailedUnits []string
	Seen        time.Time // when the node was last seen; zero: unknown
	// Usual is how long each stage usually takes, from the end of the stage before. A missing stage gets a default that
	// suits most machines.
	Usual map[Stage]time.Duration
}

// Diagnose returns the fault of a boot, found from its events. It returns false for a boot without a fault, one that
// waits in a queue or for an operator, and one that may only need more time.
func Diagnose(events []Event, facts Facts, now time.Time) (Diagnosis, bool) {
	c := read(events)
	if s := c.StateAt(facts, now); s != Failed && s != Degraded {
		return Diagnosis{}, false
	}
	switch {
	case c.panicked != nil:
		return Diagnosis{Panic, c.panicked.Stage, c.panicked.Time, "the kernel panicked: " + c.panicked.Message,
			"look at the console output below; if it began with a version, give the node the one before: pando " +
				"node set NODE --image NAME@VERSION"}, true
	case c.rootLost != nil:
		return Diagnosis{RootLost, c.rootLost.Stage, c.rootLost.Time, c.rootLost.Message,
			"the node restarts by itself; if it comes again, look in its kernel's log for what killed its block " +
				"daemon (--netconsole), and at its memory"}, true
	case c.State == Up && len(facts.FailedUnits) > 0:
		return unitsFailed(c, facts.FailedUnits), true
	case c.State == Failed:
		return broken(c), true
	}
	return late(c, facts, now), true
}

// course is the progress of a boot, and what else its diagnosis needs.
type course struct {
	Progress
	failure  Event  // failure of the broken stage
	lastFact string // the last reported fact of the furthest stage
	panicked *Event
	rootLost *Event
	scriptAt string // URL of the script that iPXE was told
}

func read(events []Event) course {
	var c course
	for _, e := range events {
		c.Apply(e)
		if e.Attrs[AttrPanic] != "" {
			c.panicked = &e
		}
		if e.Attrs[AttrRootLost] != "" {
			c.rootLost = &e
		}
		if at := e.Attrs[AttrScriptAt]; at != "" {
			c.scriptAt = at
			continue
		}
		if e.Kind == Info && e.Stage == c.Stage {
			c.lastFact = e.Message
		}
		if e.Kind == Fail && e.Stage == c.Broken || e.Stage == Shutdown && c.Failure == e.Message {
			c.failure = e
		}
	}
	return c
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Faults returns all faults, for programs that explain them.
func Faults() []Fault {
	return []Fault{
		NoLease,
		NoBootFile,
		BootFileLost,
		NothingToBoot,
		WrongArchitecture,
		TransferBroken,
		NoDriver,
		NoLink,
		Refused,
		SignatureRefused,
		Unreachable,
		DeviceFailed,
		MountFailed,
		NotPrepared,
		NoInit,
		Panic,
		RootLost,
		StateAway,
		EmergencyMode,
		UnitsFailed,
		GoneInFirmware,
		GoneInLoader,
		GoneAfterScript,
		GoneInKernel,
		Hangs,
		NotStarted,
	}
}
