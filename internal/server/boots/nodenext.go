package boots

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"pando/internal/admission"
	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/bootmethod"
	"pando/internal/bootplan"
	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/nodeauth"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
)

// nextBoots begins the next boots of running nodes.
type nextBoots struct {
	registry  Registry
	store     *store.Dir
	boots     *bootlog.Boots
	planner   *bootplan.Planner
	admission *admission.Queue
	nodeAuth  *nodeauth.Checker
	scripts   *scripts
	tokens    *tokens
	now       func() time.Time
}

// SoftReboot answers POST /v1/node/next: it begins the boot of a running node that keeps its kernel, and returns the
// token that other nodes find in their initramfs.
func (s *nextBoots) SoftReboot(w http.ResponseWriter, r *http.Request) error {
	_, c, p, err := s.NextPlan(w, r, false)
	if err != nil {
		return err
	}
	defer c.Unlock()
	ctx, from := r.Context(), httpapi.RemoteAddr(r)
	token, now := identity.NewToken(), s.now()
	c.Begin(now)
	err = s.boots.Save(ctx, c, func(b *registry.Boot) {
		b.Node, b.Addr, b.Firmware, b.Scripted, b.Image, b.Version = p.Node.Name, from, string(
			fleet.MethodSoftReboot,
		), now, p.Image, p.Version
		b.Token, b.TokenMade = registry.HashSecret(token), now
	})
	if err != nil {
		return err
	}
	s.boots.SetAddr(c, from)
	s.boots.Record(
		ctx,
		c,
		trace.Event{Time: now, Stage: trace.Script, Kind: trace.Begin},
		trace.Event{
			Time:    now,
			Stage:   trace.Script,
			Kind:    trace.End,
			Message: p.Image.Running(p.Version) + ", soft-reboot; no firmware, no kernel",
			Attrs: map[string]string{
				"version":      string(p.Version),
				"address":      from.String(),
				trace.AttrArgs: strings.Join(p.KernelArgs(), " "),
			},
		},
	)
	return httpapi.Reply(
		w,
		api.BeginResponse{
			Boot:  c.Boot.ID,
			Token: token,
			TPM:   fleet.ValueOf(p.Group.Secrets).Kind() == fleet.SecretsTPM,
		},
	)
}

// NextPlan returns the running boot of the requesting node, locked, and what its next boot would run if the kernel
// stays. early: as if the node's rollout had already taken it.
func (s *nextBoots) NextPlan(
	w http.ResponseWriter,
	r *http.Request,
	early bool,
) (b registry.Boot, c *bootlog.Entry, p bootplan.Plan, err error) {
	req, err := httpapi.DecodeReport[api.NodeNext](w, r)
	if err != nil {
		return b, nil, p, err
	}
	if b, err = s.nodeAuth.BySession(r, req.Boot); err != nil {
		return b, nil, p, err
	}
	if c, err = s.boots.Of(r.Context(), b.MAC); err != nil {
		return b, nil, p, err
	}
	if p, err = s.planAfter(r.Context(), c, b, early); err != nil {
		c.Unlock()
		return b, nil, p, hint.API(err)
	}
	return b, c, p, nil
}

// planAfter returns what the boot that follows b runs. c's lock is held.
func (s *nextBoots) planAfter(
	ctx context.Context,
	c *bootlog.Entry,
	b registry.Boot,
	early bool,
) (p bootplan.Plan, err error) {
	node, _, err := s.planner.Member(ctx, c.MAC)
	if err != nil {
		return p, err
	}
	if b.Session.IsZero() || c.Boot.ID != b.ID {
		return p, api.NewError(api.Conflict, fmt.Sprintf("boot %s is not what this machine runs", b.ID), "")
	}
	if early {
		node = bootmethod.Ahead(ctx, s.registry, node)
	}
	return s.planner.Plan(ctx, node, fleet.Hardware{})
}
