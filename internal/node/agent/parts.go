package agent

import (
	"context"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// Parts are rooms that the agent works with.
type Parts struct {
	Extensions Extensions
	Next       NextBoot
	Medium     MediumCare
	Login      func(context.Context)   // has what a login reads held in memory, after the boot; nil: nothing
	Beside     []func(context.Context) // that run beside the agent's loop, once the node has a server
}

// Extensions change what is laid over the root.
type Extensions interface {
	Has() (list []fleet.Extension, why string) // that are laid over the root, and why they are not those that should be
	Extend(ctx context.Context)                // makes them what the server says
	LeaveSwarms()                              // tells their peers that the node goes
}

// NextBoot goes to the next boot without the kernel ending.
type NextBoot interface {
	StageAhead(ctx context.Context)
	SoftReboot(ctx context.Context)
	Staged() fleet.Digest // "": nothing
	Leaving() bool        // what the next agent has to know is written: nothing of it may be changed
}

// MediumCare looks after the node's boot medium and its disks.
type MediumCare interface {
	// Look renews the medium some time after the node booted. It returns true once, when the medium is in step: of
	// which disk, "" for none, and how many bytes were written for that.
	Look(ctx context.Context, booted time.Duration) (disk string, wrote int64, ok bool)
	DiskPreparer
}

// DiskPreparer makes a disk the node's cache, and a boot medium too if that is wanted.
type DiskPreparer interface {
	Prepare(sys, dev, proc string, what api.NodeCommand) error
}

// nothing is what an agent works with that has no machine.
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
