package trace

import (
	"time"

	"pando/internal/fleet"
)

// Stage is a point in the fixed list that every boot passes. A phase of /init has its stage's name.
type Stage string

// The stages, in the order of a boot. Server stages are on the server's clock; the stages from Init to
// Booted come from the node as monotonic offsets from Init.
const (
	DHCP       Stage = "dhcp"       // first DISCOVER of the firmware to its ACK
	BootFile   Stage = "bootfile"   // boot loader sent by TFTP or HTTP
	Script     Stage = "script"     // iPXE requested its script
	Kernel     Stage = "kernel"     // kernel sent
	Initramfs  Stage = "initramfs"  // drivers, agent and trust cpios sent
	Init       Stage = "init"       // /init runs: origin of the node's clock
	Modules    Stage = "modules"    // drivers loaded by modalias
	Link       Stage = "link"       // carrier on the NIC that booted
	Address    Stage = "address"    // DHCP in the initramfs
	Register   Stage = "hello"      // token redeemed, assignment verified
	Manifest   Stage = "manifest"   // manifest fetched, signature verified
	Device     Stage = "device"     // block device attached
	Root       Stage = "root"       // EROFS and overlay mounted
	Config     Stage = "config"     // config files in place
	SwitchRoot Stage = "switchroot" // the image's init takes over
	Booted     Stage = "booted"     // the image reached its default target
	Shutdown   Stage = "shutdown"   // the node reported its shutdown
)

// Rollout is the stage of events about a rollout. They are in the event stream but in no timeline.
const Rollout Stage = "rollout"

// Power is the stage of events about a node's power. They are in the event stream but in no timeline.
const Power Stage = "power"

// order has every stage in the order of a boot.
var order = [...]Stage{DHCP, BootFile, Script, Kernel, Initramfs, Init, Modules, Link, Address, Register,
	Manifest, Device, Root, Config, SwitchRoot, Booted, Shutdown}

// Stages returns every stage in the order of a boot.
func Stages() []Stage { return order[:] }

// Rank returns the place of s in the order of a boot, -1 for a mark that an image defines.
func Rank(s Stage) int {
	for i, o := range order {
		if o == s {
			return i
		}
	}
	return -1
}

// Kind says what an event reports of its stage.
type Kind string

// The kinds of events.
const (
	Begin Kind = "begin"
	End   Kind = "end"
	Fail  Kind = "fail" // Message says what failed, Hint what to do; the stage is retried
	Info  Kind = "info" // a fact: wrong bytes from a source, another server used, a link lost
)

// Event is one record of a boot. Timeline, dashboard, gate and metrics are made of events only.
type Event struct {
	Seq     int64         `json:"seq,omitempty"`  // assigned by the registry, increases by one
	Time    time.Time     `json:"time"`           // server clock; for node events, Init's time plus Offset
	Boot    fleet.BootID  `json:"boot,omitempty"` // "" before the boot has an id
	Node    string        `json:"node,omitempty"`
	MAC     fleet.MAC     `json:"mac,omitzero"`
	Stage   Stage         `json:"stage"`
	Kind    Kind          `json:"kind"`
	Offset  time.Duration `json:"offset,omitempty"`  // node's monotonic time since Init
	Attempt int           `json:"attempt,omitempty"` // 1 for the first try
	Message string        `json:"message,omitempty"`
	Hint    string        `json:"hint,omitempty"`
	// bytes received so far, by source: "server", "bucket", "peer", "cache", "zero"
	Bytes map[string]int64  `json:"bytes,omitempty"`
	Attrs map[string]string `json:"attrs,omitempty"`
}
