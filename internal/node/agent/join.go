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

// joinEvery is how often the agent of a node that booted without a server tries to reach one. Meanwhile lease.Renewer
// does a DHCP exchange about once a minute, which is often enough.
const joinEvery = 15 * time.Second

// joiner registers a node that booted without a server.
type joiner struct {
	who    *identity
	sender *sender
}

// wait returns true once the node has a session. A node that booted without a server tries to get one until ctx ends;
// then wait returns false.
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

// askToJoin gets a boot ID, registers the node, and stores the session. The running version stays: the assignment is
// for the next boot.
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
