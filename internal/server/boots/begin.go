package boots

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
	"pando/internal/versions"
)

// longestUptime bounds how long a node may report that it ran before a server answered.
const longestUptime = 365 * 24 * time.Hour

// mediumBoots begins the boots of machines that were started from a boot medium.
type mediumBoots struct {
	boots     *bootlog.Boots
	planner   *bootplan.Planner
	versions  *versions.Cache
	scripts   *scripts
	addresses *addresses
	now       func() time.Time
}

// BeginFromMedium answers POST /v1/node/begin. A machine that was started from a boot medium gets, over TLS, what
// script and initramfs give other machines, on the same conditions.
func (s *mediumBoots) BeginFromMedium(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.BeginRequest](w, r)
	if err != nil {
		return err
	}
	ctx, from := r.Context(), httpapi.RemoteAddr(r)
	c, err := s.boots.Of(ctx, req.MAC)
	if err != nil {
		return err
	}
	defer c.Unlock()
	if !s.addresses.proven(c, req.MAC, from, ExchangeTime) {
		return api.NewError(
			api.NotFound,
			fmt.Sprintf("no DHCP exchange of %s for address %s was seen in the last minute", req.MAC, from),
			"it does one now; if this goes on, run `pando doctor` on the server",
		)
	}
	switch {
	case req.Runs:
		began := s.now().Add(-min(max(req.Uptime, 0), longestUptime))
		if latest := c.Boot.Started; !began.After(latest) {
			began = latest.Add(time.Second) // the requested boot must be the machine's latest
		}
		c.Begin(began)
	case !c.UnderWay(s.now()), req.Uptime > 0 && c.LoadedBefore(s.now().Add(-req.Uptime)):
		s.boots.Follow(c, s.now())
	}
	s.boots.SetAddr(c, from)
	p, err := s.mediumPlan(ctx, c, req)
	if err != nil {
		return hint.API(err)
	}
	token, err := s.beginMedium(ctx, c, p, from, req.Runs)
	if err != nil {
		return err
	}
	return httpapi.Reply(
		w,
		api.BeginResponse{
			Boot:  c.Boot.ID,
			Token: token,
			TPM:   fleet.ValueOf(p.Group.Secrets).Kind() == fleet.SecretsTPM,
		},
	)
}

// mediumPlan returns what the machine boots. Its kernel runs already, so it has to be the kernel of the version.
func (s *mediumBoots) mediumPlan(ctx context.Context, c *bootlog.Entry, req api.BeginRequest) (bootplan.Plan, error) {
	m, err := s.scripts.admit(ctx, c, netboot.Query{MAC: req.MAC, UUID: req.UUID, Serial: req.Serial})
	if err != nil {
		return bootplan.Plan{}, err
	}
	if m.Node.State != fleet.Adopted {
		message, do := waitsFor(m)
		return bootplan.Plan{}, api.NewError(api.NotFound, message, do)
	}
	p, err := s.planner.Plan(ctx, m.Node, fleet.Hardware{})
	if err != nil {
		return p, err
	}
	if req.Runs {
		if _, err := s.versions.Manifest(req.Medium); err != nil {
			return p, err
		}
		p.Version = req.Medium
		return p, nil
	}
	if started := s.versions.Kernel(req.Medium); started != p.Manifest.Kernel.Object.Name() {
		return p, api.NewError(
			api.NotFound,
			fmt.Sprintf(
				"the boot medium has the kernel of version %s, and this node boots %s with another one",
				req.Medium.Short(),
				p.Version.Short(),
			),
			fmt.Sprintf("make the medium again: pando media create %s", m.Node.Name),
		)
	}
	return p, nil
}

// beginMedium records the boot and makes its token. c's lock is held.
func (s *mediumBoots) beginMedium(
	ctx context.Context,
	c *bootlog.Entry,
	p bootplan.Plan,
	from netip.Addr,
	runs bool,
) (string, error) {
	token, now := identity.NewToken(), s.now()
	err := s.boots.Save(ctx, c, func(b *registry.Boot) {
		addList(b, everyNIC)
		b.Node, b.Addr, b.Scripted, b.Image, b.Version = p.Node.Name, from, now, p.Image, p.Version
		b.Token, b.TokenMade = registry.HashSecret(token), now
	})
	if err != nil {
		return "", err
	}
	c.Kernel, c.Token, c.Failure = "", "", ""
	c.Loaded(s.now())
	if c.DHCP == trace.Begin {
		s.boots.DHCPDone(c, from)
	}
	what := "kernel and initramfs from a boot medium"
	if runs {
		now, what = c.Boot.Started, "booted from its own disk while no server answered"
	}
	s.boots.Record(
		ctx,
		c,
		trace.Event{Time: now, Stage: trace.Script, Kind: trace.Begin},
		trace.Event{
			Time:    now,
			Stage:   trace.Script,
			Kind:    trace.End,
			Message: fmt.Sprintf("%s, %s", p.Image.Running(p.Version), what),
			Attrs: map[string]string{
				"version": string(p.Version),
				"address": from.String(),
				"drivers": everyNIC,
				"medium":  "true",
			},
		},
	)
	return token, nil
}
