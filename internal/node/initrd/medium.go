package initrd

import (
	"context"
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/problem"
)

// bootID names this boot. A machine that was started from a boot medium has none until a server gave it one.
func (m *machine) bootID() fleet.BootID {
	if b := m.begin.Load(); b != nil {
		return b.Boot
	}
	return m.config.Boot
}

// hardware is what the machine says of itself.
func (m *machine) hardware() fleet.Hardware {
	if m.known != nil {
		return *m.known
	}
	h := hardware.Read()
	if m.modules != nil {
		h.Modules = m.modules.Names
	}
	for _, n := range m.nics {
		if n.Index == m.lease.Interface {
			h.NIC = n.Driver
		}
	}
	return h
}

// mac is the MAC that this node is known by: that of the adapter that its firmware booted from, else that of the one it
// has an address on.
func (m *machine) mac() fleet.MAC {
	if m.config.MAC.IsZero() {
		return m.lease.MAC
	}
	return m.config.MAC
}

// token is the right to say hello, "" while there is none.
func (m *machine) token() string {
	if b := m.begin.Load(); b != nil {
		return b.Token
	}
	return m.config.Token
}

// beginBoot gets id and token for a machine that was started from a boot medium, once.
func (m *machine) beginBoot(ctx context.Context) error {
	if m.config.Medium == "" || m.begin.Load() != nil {
		return nil
	}
	h := m.hardware()
	req := api.BeginRequest{MAC: m.lease.MAC, Medium: m.config.Medium, UUID: h.UUID, Serial: h.Serial}
	var resp api.BeginResponse
	if err := m.control.Call(ctx, "/v1/node/begin", "", req, &resp); err != nil {
		return m.beginProblem(err)
	}
	m.begin.Store(&resp)
	return nil
}

func (m *machine) beginProblem(err error) error {
	var r *control.Refused
	if errors.As(err, &r) {
		return &problem.Problem{Err: fmt.Errorf("begin a boot from a medium: %w", err), Hint: r.Hint()}
	}
	return &problem.Problem{Err: fmt.Errorf("no server answers: %w", err), Tried: fmt.Sprint(m.config.Control),
		Hint: "this machine was started from its boot medium; it goes on as soon as a server is back"}
}
