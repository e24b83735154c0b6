package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"pando/internal/api"
	"pando/internal/backoff"
	"pando/internal/control"
	"pando/internal/hardware"
	"pando/internal/link"
	"pando/internal/rundir"
	"pando/internal/tpm"
)

// joinEvery is how often the agent of a node that booted without a server looks for one. A DHCP exchange, which the
// lease's keeper makes once a minute then, is good for as long.
const joinEvery = 15 * time.Second

// joiner makes a node that booted without a server one of its server's nodes.
type joiner struct {
	who    *identity
	sender *sender
}

// wait waits until a server has taken a node that booted without one. It returns false when ctx ends before.
func (j *joiner) wait(ctx context.Context) bool {
	if j.who.session.Session != "" {
		return true
	}
	last := ""
	for {
		err := j.askToJoin(ctx)
		if err == nil {
			return true
		}
		if text := err.Error(); text != last {
			j.sender.logf("no server yet: %v", err)
			last = text
		}
		if backoff.Sleep(ctx, joinEvery) != nil {
			return false
		}
	}
}

// askToJoin gets a boot id, registers the node, and keeps the session. The node goes on running what it runs: the
// assignment is for its next boot.
func (j *joiner) askToJoin(ctx context.Context) error {
	var l link.Lease
	if err := rundir.ReadJSON(j.who.dir, rundir.LeaseName, &l); err != nil {
		return err
	}
	hardware := hardware.Read()
	var begun api.BeginResponse
	err := j.sender.control.Call(
		ctx,
		"/v1/node/begin",
		"",
		api.BeginRequest{MAC: l.MAC, Medium: j.who.session.Version, UUID: hardware.UUID,
			Serial: hardware.Serial, Runs: true, Uptime: j.who.offset()},
		&begun,
	)
	if err != nil {
		return err
	}
	req := api.RegisterRequest{
		Boot:     begun.Boot,
		Token:    begun.Token,
		MAC:      l.MAC,
		Addr:     l.Address.Addr().String(),
		Release:  j.who.release,
		Hardware: hardware,
		Nonce:    rand.Text(),
	}
	if begun.TPM {
		if req.TPM, err = tpm.Prove(tpm.Device, api.TPMDigest(req, j.who.session.ServerKey)); err != nil {
			j.sender.logf("no proof by a TPM: %v", err)
		}
	}
	var resp api.RegisterResponse
	err = j.sender.control.Call(ctx, "/v1/node/hello", "", req, &resp)
	if err != nil {
		return err
	}
	if _, err := control.CheckAssignment(resp,
		api.BootConfig{Boot: begun.Boot, ServerKey: j.who.session.ServerKey}); err != nil {
		return err
	}
	s := j.who.session
	s.Boot, s.Session = begun.Boot, resp.Session
	if err := rundir.WriteJSON(j.who.dir, rundir.SessionName, 0o600, s); err != nil {
		return err
	}
	j.who.joined.Store(&s)
	j.sender.logf("a server answers: boot %s", s.Boot)
	j.sender.Info(fmt.Sprintf("booted without a server, which answers after %s", j.who.offset().Round(time.Second)), "")
	return nil
}
