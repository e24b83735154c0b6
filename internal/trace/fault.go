package trace

import "time"

// Fault is a kind of trouble that a boot can have.
type Fault string

// The faults that are told apart.
const (
	NoLease           Fault = "no-lease"           // nobody gave it an address
	NoBootFile        Fault = "no-boot-file"       // there is none for its firmware
	BootFileLost      Fault = "boot-file-lost"     // it was sent and did not arrive
	NothingToBoot     Fault = "nothing-to-boot"    // its group has no image, or one that is not there
	WrongArchitecture Fault = "wrong-architecture" // the version is for another processor
	TransferBroken    Fault = "transfer-broken"    // kernel or initramfs was broken off
	NoDriver          Fault = "no-driver"          // no network adapter has a driver
	NoLink            Fault = "no-link"            // no cable, as far as the adapters tell
	Refused           Fault = "refused"            // the server will not have it
	SignatureRefused  Fault = "signature-refused"  // what it was to boot is not signed by whom it trusts
	Unreachable       Fault = "unreachable"        // no source answers
	DeviceFailed      Fault = "device-failed"      // the root device was not attached
	MountFailed       Fault = "mount-failed"       // root or overlay was not mounted
	NotPrepared       Fault = "not-prepared"       // config files were not put in place
	NoInit            Fault = "no-init"            // the image has nothing to go on with
	Panic             Fault = "kernel-panic"       // the kernel said so
	RootLost          Fault = "root-lost"          // nobody answered reads of its root any more
	StateAway         Fault = "state-away"         // what it keeps cannot be had
	EmergencyMode     Fault = "emergency-mode"     // systemd went no further
	UnitsFailed       Fault = "units-failed"       // it is up, and not all of it
	GoneInFirmware    Fault = "gone-in-firmware"   // it has an address and asks for no boot file
	GoneInLoader      Fault = "gone-in-loader"     // it has its boot file and asks for no script
	GoneAfterScript   Fault = "gone-after-script"  // it has its script and asks for no kernel
	GoneInKernel      Fault = "gone-in-kernel"     // it has kernel and initramfs, and is not heard of
	Hangs             Fault = "hangs"              // it takes much longer than usual
	NotStarted        Fault = "not-started"        // the image's init runs, and its default target is not reached
)

// AttrPanic is the attribute of an event that tells of a kernel's panic.
const AttrPanic = "panic"

// AttrRootLost is the attribute of an event that tells that a node restarts because nobody answers reads of its root.
const AttrRootLost = "root_lost"

// AttrOff is the attribute of the end of a boot whose machine switches itself off, and does not come back by itself.
const AttrOff = "off"

// AttrScriptAt is the attribute of an event that tells that iPXE runs and was told where its script is: the URL.
const AttrScriptAt = "script_at"

// AttrArgs is the attribute of the end of stage Script that has the kernel arguments of the boot.
const AttrArgs = "args"

// AttrCache is the attribute of an event that tells of a node's cache on a disk: its device, or "none".
const AttrCache = "cache"

// AttrIncident is the attribute of an event that tells of something that went wrong below a node's root and was
// dealt with: its kind.
const AttrIncident = "incident"

// WaitsFor begins what a node says of a boot that waits: the units and devices follow for which its systemd does.
const WaitsFor = "systemd waits for "

// Diagnosis is a fault of a boot: what happened, and what to do.
type Diagnosis struct {
	Fault Fault
	Stage Stage
	Since time.Time // when the boot went on last, or when it failed
	Text  string
	Do    string
}

// Facts is the input of Diagnose besides a boot's events.
type Facts struct {
	FailedUnits []string
	Seen        time.Time // when the node was last heard of; zero: it is not known
	// Usual is how long each stage usually takes, from the end of the stage before. A missing stage gets a default that
	// suits most machines.
	Usual map[Stage]time.Duration
}

// Diagnose finds what is wrong with a boot, from its events. It returns false for a boot without a fault, one that
// waits in a queue or for an operator, and one that may only need a moment longer.
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

// course is a boot as far as it came.
type course struct {
	Progress
	failure  Event  // of the stage that is broken
	lastFact string // the last fact that was told of the furthest stage
	panicked *Event
	rootLost *Event
	scriptAt string // where iPXE, which runs, was told that its script is
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

// Faults are all that there are, for who explains them.
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
