package boot

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"pando/internal/api"
)

// joinEvery is how often the agent of a node that booted without a server looks for one. A DHCP exchange, which the
// lease's keeper makes once a minute then, is good for as long.
const joinEvery = 15 * time.Second

// self is who the agent speaks as: what init left, or what a server gave it since.
func (a *agent) self() session {
	if s := a.joined.Load(); s != nil {
		return *s
	}
	return a.session
}

// join waits until a server has taken a node that booted without one. It returns false when ctx ends before.
func (a *agent) join(ctx context.Context) bool {
	if a.session.Session != "" {
		return true
	}
	last := ""
	for {
		err := a.askToJoin(ctx)
		if err == nil {
			return true
		}
		if text := err.Error(); text != last {
			a.logf("no server yet: %v", err)
			last = text
		}
		if sleep(ctx, joinEvery) != nil {
			return false
		}
	}
}

// askToJoin gets a boot id, says hello, and keeps the session. The node goes on running what it runs, whatever the
// assignment says now: that is for its next boot.
func (a *agent) askToJoin(ctx context.Context) error {
	var l lease
	if err := readJSON(a.dir, leaseName, &l); err != nil {
		return err
	}
	hardware := (&machine{}).hardware()
	var begun api.BeginResponse
	err := a.control.call(
		ctx,
		"/v1/node/begin",
		"",
		api.BeginRequest{MAC: l.MAC, Medium: a.session.Version, UUID: hardware.UUID,
			Serial: hardware.Serial, Runs: true, Uptime: a.offset()},
		&begun,
	)
	if err != nil {
		return err
	}
	req := api.HelloRequest{
		Boot:     begun.Boot,
		Token:    begun.Token,
		MAC:      l.MAC,
		Addr:     l.Address.Addr().String(),
		Release:  a.release,
		Hardware: hardware,
		Nonce:    rand.Text(),
	}
	if begun.TPM {
		if req.TPM, err = proveTPM(tpmDevice, api.TPMDigest(req, a.session.ServerKey)); err != nil {
			a.logf("no proof by a TPM: %v", err)
		}
	}
	var resp api.HelloResponse
	err = a.control.call(ctx, "/v1/node/hello", "", req, &resp)
	if err != nil {
		return err
	}
	if _, err := checkAssignment(resp, api.BootConfig{Boot: begun.Boot, ServerKey: a.session.ServerKey}); err != nil {
		return err
	}
	s := a.session
	s.Boot, s.Session = begun.Boot, resp.Session
	if err := writeJSON(a.dir, sessionName, 0o600, s); err != nil {
		return err
	}
	a.joined.Store(&s)
	a.logf("a server answers: boot %s", s.Boot)
	a.info(fmt.Sprintf("booted without a server, which answers after %s", a.offset().Round(time.Second)), "")
	return nil
}
