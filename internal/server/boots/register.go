package boots

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/admission"
	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/lastseen"
	"pando/internal/nodeauth"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/trace"
)

// RepeatTime is how long a node may repeat a registration whose reply was lost. The nonce, sent only inside TLS,
// identifies it.
const RepeatTime = 5 * time.Minute

// registrar exchanges a boot token for a session.
type registrar struct {
	registry  Registry
	boots     *bootlog.Boots
	planner   *bootplan.Planner
	discovery *discovery.Machines
	admission *admission.Queue
	configs   *nodeconfig.Renderer
	keys      identity.Keys
	addresses *addresses
	assigner  *assigner
	lastSeen  *lastseen.Times

	packs    packSource
	journals journalSource
	now      func() time.Time
}

// Register answers POST /v1/node/hello: it exchanges a boot's token for the credential of a session, once.
func (s *registrar) Register(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.RegisterRequest](w, r)
	if err != nil {
		return err
	}
	c, err := s.boots.ByID(r.Context(), req.Boot)
	if errors.Is(err, registry.ErrNotFound) {
		return refusedRegistration("no such boot")
	}
	if err != nil {
		return err
	}
	defer c.Unlock()
	if err := s.checkRegistration(r.Context(), c, req, httpapi.RemoteAddr(r)); err != nil {
		return err
	}
	resp, err := s.redeem(r.Context(), c, req, httpapi.RemoteAddr(r), httpapi.LocalAddr(r))
	if err != nil {
		return err
	}
	return httpapi.Reply(w, resp)
}

func refusedRegistration(why string) error {
	return api.NewError(
		api.Unauthorized,
		"registration refused: "+why,
		"the node reboots and gets another token; its timeline tells who used this one",
	)
}

// checkRegistration checks the token, and that the sender is the machine that it was made for. The boot's lock is held.
func (s *registrar) checkRegistration(
	ctx context.Context,
	c *bootlog.Entry,
	req api.RegisterRequest,
	from netip.Addr,
) error {
	b, now := c.Boot, s.now()
	hash := registry.HashSecret(req.Token)
	if b.Token.IsZero() || subtle.ConstantTimeCompare(hash[:], b.Token[:]) != 1 || req.MAC != c.MAC {
		return refusedRegistration("unknown token")
	}
	if now.Sub(b.TokenMade) > nodeauth.TokenLife {
		return refusedRegistration(fmt.Sprintf("the token is older than %s", nodeauth.TokenLife))
	}
	if from != b.Addr && !s.addresses.proven(c, c.MAC, from, exchangeKept) {
		s.boots.Fail(
			ctx,
			c,
			trace.Register,
			fmt.Sprintf("registration from %s refused: no DHCP exchange gave %s this address", from, c.MAC),
			"somebody may have read the token; or the node has an address that does not come from DHCP",
		)
		return refusedRegistration(fmt.Sprintf("address %s is not this node's", from))
	}
	if !b.TokenUsed.IsZero() && !again(b, req, now) {
		s.boots.Fail(ctx, c, trace.Register, fmt.Sprintf("token already used: second registration from %s", from),
			"one of the two was not the node: look who else is on this network, and reboot the node")
		return refusedRegistration("token already used")
	}
	return nil
}

// again reports whether this request repeats the registration that used the token.
func again(b registry.Boot, req api.RegisterRequest, now time.Time) bool {
	hash := registry.HashSecret(req.Nonce)
	return !b.Nonce.IsZero() && subtle.ConstantTimeCompare(hash[:], b.Nonce[:]) == 1 &&
		now.Sub(b.TokenUsed) < RepeatTime
}

// redeem makes the session and the assignment of a registration. The boot's lock is held.
func (s *registrar) redeem(
	ctx context.Context,
	c *bootlog.Entry,
	req api.RegisterRequest,
	from, at netip.Addr,
) (api.RegisterResponse, error) {
	var resp api.RegisterResponse
	n, err := s.registrationConfig(ctx, c, req.Hardware, at)
	if err != nil {
		return resp, err
	}
	node := n.Node
	if err := s.takeProof(ctx, c, &n, req); err != nil {
		return resp, err
	}
	if why := n.Claim().Withheld(); why != "" && fleet.ValueOf(n.Group.Secrets).Wait() {
		return resp, api.NewError(
			api.NotFound,
			"node "+node.Name+" waits for its secrets: "+why,
			nodeconfig.ApproveHint(n),
		)
	}
	hardware, err := json.Marshal(clipHardware(req.Hardware))
	if err != nil {
		return resp, fmt.Errorf("encode hardware of %s: %w", node.Name, err)
	}
	pack := s.packs.ForBoot(c.Boot.Version, fleetview.HardwareClass(req.Hardware))
	set := s.configs.Render(n, s.configs.Secrets(n))
	resp.Assignment, resp.Signature, err = s.assigner.Assign(ctx, c.Boot, n, set, pack, at)
	if err != nil {
		return resp, err
	}
	_, resp.Secrets = set.Parts()
	_, key, err := s.journals.Files(c.Boot.ID, at)
	if err != nil {
		return resp, err
	}
	resp.Secrets = append(resp.Secrets, key...)
	resp.Session, resp.Time = identity.NewToken(), s.now().UTC()
	if resp.Cached, err = s.hadCache(ctx, c.Boot.ID, n); err != nil {
		return resp, err
	}
	err = s.boots.Save(ctx, c, func(b *registry.Boot) {
		b.Node, b.TokenUsed, b.Hardware, b.Server = node.Name, s.now(), hardware, at
		b.Config = s.configs.Digests(set.All())
		b.Nonce, b.Session = registry.HashSecret(req.Nonce), registry.HashSecret(resp.Session)
	})
	if err != nil {
		return resp, err
	}
	c.Token, c.Kernel = "", ""
	c.Arrived()
	s.boots.NoteEnded(ctx, c)
	err = s.registry.UpdateBoot(ctx, c.MAC,
		func(tx *registry.Tx) error { return tx.EndSessions(c.MAC, c.Boot.ID) })
	if err != nil {
		return resp, err
	}
	s.admission.SawLink(c.MAC, req.Hardware.Link)
	s.discovery.Touch(ctx, node, req.Hardware.UUID, req.Hardware.Serial)
	s.lastSeen.Note(c.MAC, from, s.now())
	return resp, nil
}

// cacheBoots is how many earlier boots are searched for the node's last report of its cache. A boot that broke off, or
// one by kexec, has none.
const cacheBoots = 16

// hadCache reports whether a node whose group keeps a cache on a disk had one in its last boot before this one.
func (s *registrar) hadCache(ctx context.Context, boot fleet.BootID, n nodeconfig.Node) (bool, error) {
	if fleet.ValueOf(n.Group.Cache) != fleet.CacheDisk {
		return false, nil
	}
	var before []registry.Boot
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		before, err = tx.Boots(registry.BootFilter{Node: n.Node.Name, Limit: 1 + cacheBoots})
		return err
	})
	if err != nil {
		return false, err
	}
	for _, b := range before {
		if b.ID == boot {
			continue
		}
		p, err := s.registry.Progress(ctx, b.ID)
		if err != nil {
			return false, err
		}
		if cacheKind := p[b.ID].Cache; cacheKind != "" {
			return cacheKind != string(fleet.CacheNone), nil
		}
	}
	return false, nil
}

// takeProof records which key of a TPM signed the registration. A wrong signature counts as no proof and is recorded as
// an event. The boot's lock is held.
func (s *registrar) takeProof(
	ctx context.Context,
	c *bootlog.Entry,
	n *nodeconfig.Node,
	req api.RegisterRequest,
) error {
	n.Boot.Proof = ""
	if req.TPM != nil {
		key, err := identity.VerifyTPM(
			req.TPM.Key,
			req.TPM.Signature,
			api.TPMDigest(req, base64.StdEncoding.EncodeToString(s.keys.ServerPublic())),
		)
		if err != nil {
			s.boots.Fail(
				ctx,
				c,
				trace.Register,
				err.Error(),
				"a machine claims a key that it does not have: find out which machine uses this address",
			)
		}
		n.Boot.Proof = key
	}
	if n.Boot.Proof == c.Boot.Proof {
		return nil
	}
	return s.boots.Save(ctx, c, func(b *registry.Boot) { b.Proof = n.Boot.Proof })
}

// registrationConfig returns what the config files of a boot that registers are made from. The boot's lock is held.
func (s *registrar) registrationConfig(
	ctx context.Context,
	c *bootlog.Entry,
	h fleet.Hardware,
	at netip.Addr,
) (nodeconfig.Node, error) {
	node, group, err := s.planner.Member(ctx, c.MAC)
	n := nodeconfig.Node{Node: node, Group: group, Boot: c.Boot}
	if err != nil {
		return n, err
	}
	n.Boot.Server = at
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		stored, err := tx.Boot(c.Boot.ID)
		if err != nil {
			return err
		}
		n.Boot.Approved = stored.Approved
		all, err := tx.ConfigFiles()
		if err != nil {
			return err
		}
		return n.Of(tx, h, all)
	})
	return n, err
}

// clipHardware shortens the texts and lists that a node reports about its hardware.
func clipHardware(h fleet.Hardware) fleet.Hardware {
	for _, p := range []*string{&h.Vendor, &h.Product, &h.Serial, &h.UUID, &h.NIC, &h.Architecture, &h.CPU} {
		*p = httpapi.Clip(*p, 128)
	}
	h.Modules, h.Missing, h.PCI = httpapi.ClipList(
		h.Modules,
		256,
	), httpapi.ClipList(
		h.Missing,
		64,
	), httpapi.ClipList(
		h.PCI,
		256,
	)
	return h
}
