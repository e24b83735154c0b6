package initrd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/link"
	"pando/internal/problem"
)

// bootID returns the ID of this boot. A boot from a medium has none until a server assigns one.
func (l *timeline) bootID() fleet.BootID {
	if b := l.begin.Load(); b != nil {
		return b.Boot
	}
	return l.config.Boot
}

// hardware returns the machine's description for the server.
func (q *registration) hardware(loaded Modules, on Link, lease link.Lease) fleet.Hardware {
	if q.known != nil {
		return *q.known
	}
	h := hardware.Read()
	h.Modules = loaded.Names
	for _, n := range on.Up {
		if n.Index == lease.Interface {
			h.NIC, h.Link = n.Driver, hardware.LinkRate(hardware.Sysfs, n.Name)
		}
	}
	return h
}

// nodeMAC returns the MAC that identifies this node: that of the adapter that the firmware booted from, or else that
// of the adapter with the lease.
func nodeMAC(cfg api.BootConfig, lease link.Lease) fleet.MAC {
	if cfg.MAC.IsZero() {
		return lease.MAC
	}
	return cfg.MAC
}

// token returns the boot's token for registration, "" if there is none yet.
func (l *timeline) token() string {
	if b := l.begin.Load(); b != nil {
		return b.Token
	}
	return l.config.Token
}

// beginBoot gets a boot ID and a token for a boot from a medium, once.
func (q *registration) beginBoot(ctx context.Context, h fleet.Hardware, lease link.Lease) error {
	if q.timeline.config.Medium == "" || q.timeline.begin.Load() != nil {
		return nil
	}
	req := api.BeginRequest{MAC: lease.MAC, Medium: q.timeline.config.Medium, UUID: h.UUID, Serial: h.Serial,
		Uptime: time.Since(q.timeline.started)}
	var resp api.BeginResponse
	if err := q.timeline.control.Call(ctx, "/v1/node/begin", "", req, &resp); err != nil {
		return q.beginProblem(err)
	}
	q.timeline.begin.Store(&resp)
	return nil
}

func (q *registration) beginProblem(err error) error {
	var r *control.Refused
	if errors.As(err, &r) {
		return &problem.Problem{Err: fmt.Errorf("begin a boot from a medium: %w", err), Hint: r.Hint()}
	}
	return &problem.Problem{Err: fmt.Errorf("no server answers: %w", err), Tried: fmt.Sprint(q.timeline.config.Control),
		Hint: "this machine was started from its boot medium; it goes on as soon as a server is back"}
}
