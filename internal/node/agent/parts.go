package agent

import (
	"context"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// Parts are the parts of the agent that other packages implement.
type Parts struct {
	Extensions Extensions
	Next       NextBoot
	Medium     MediumCare
	Login      func(context.Context)   // holds in memory what a login reads, until ctx ends; nil: nothing is held
	Beside     []func(context.Context) // run in the background, once the node has a server
}

// Extensions manages the system extensions that are laid over the root.
type Extensions interface {
	Has() (list []fleet.Extension, why string) // attached; why not as assigned ("": it is)
	Extend(ctx context.Context)                // attaches and detaches extensions until they are as assigned
	LeaveSwarms()                              // tells their peers that the node leaves
}

// NextBoot prepares the next boot of the running kernel (soft reboot).
type NextBoot interface {
	StageAhead(ctx context.Context)
	SoftReboot(ctx context.Context)
	Staged() fleet.Digest // the staged version; "": none
	Leaving() bool        // the next agent's files are written: do not change them any more
}

// MediumCare maintains the node's boot medium and prepares its disks.
type MediumCare interface {
	// Look updates the boot medium some time after booted (CLOCK_MONOTONIC). ok is true once, when the medium is up
	// to date: disk is its disk ("" if there is none), wrote the number of bytes that were written.
	Look(ctx context.Context, booted time.Duration) (disk string, wrote int64, ok bool)
	DiskPreparer
}

// DiskPreparer makes a disk the node's cache, and also a boot medium if the command says so.
type DiskPreparer interface {
	Prepare(sys, dev, proc string, what api.NodeCommand) error
}

// nothing implements the parts for an agent without a machine.
type nothing struct{}

func (nothing) Has() ([]fleet.Extension, string)                          { return nil, "" }
func (nothing) Extend(context.Context)                                    {}
func (nothing) LeaveSwarms()                                              {}
func (nothing) StageAhead(context.Context)                                {}
func (nothing) SoftReboot(context.Context)                                {}
func (nothing) Staged() fleet.Digest                                      { return "" }
func (nothing) Leaving() bool                                             { return false }
func (nothing) Look(context.Context, time.Duration) (string, int64, bool) { return "", 0, false }
func (nothing) Prepare(string, string, string, api.NodeCommand) error     { return nil }
