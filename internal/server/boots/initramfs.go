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
	"pando/internal/build/initramfs"
	"pando/internal/endpoint"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/initrd"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
	"pando/internal/versions"
)

// KernelTime is how long after its script a machine may request its initramfs. In a storm on a slow network the kernel
// takes long.
const KernelTime = 15 * time.Minute

// tokens makes an initramfs for each boot, with the token that the node registers with.
type tokens struct {
	boots    *bootlog.Boots
	planner  *bootplan.Planner
	versions *versions.Cache
	store    *store.Dir
	programs initrd.Programs
	disks    *initrd.DiskDrivers
	ports    *endpoint.Ports
	keys     identity.Keys
	sender   *sender

	release string
	now     func() time.Time
}

// ServeInitramfs answers GET /boot/<boot id>/initramfs: the trust cpio of this boot, the driver cpios of the boot's
// list, the agent cpio. HEAD returns the size and makes no token. A range is served while its token is in memory; after
// a restart of the server the answer is the whole file with a new token, which HTTP allows.
func (s *tokens) ServeInitramfs(w http.ResponseWriter, r *http.Request, id fleet.BootID) error {
	c, err := s.boots.ByID(r.Context(), id)
	if err != nil {
		return err
	}
	content, fresh, err := s.initramfs(r, c)
	c.Unlock()
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	if fresh {
		r.Header.Del("Range")
	}
	if r.Method == http.MethodHead {
		http.ServeContent(w, r, "", time.Time{}, content)
		return nil
	}
	return s.sender.sendK(w, r, c, trace.Initramfs, content)
}

// initramfs checks the requester, makes a token unless one is being sent, and joins the parts. fresh means that an
// earlier reply, if any, had another token. The caller holds the boot's lock.
func (s *tokens) initramfs(r *http.Request, c *bootlog.Entry) (content *initrd.Joined, fresh bool, err error) {
	if err := s.mayHaveToken(r, c); err != nil {
		return nil, false, err
	}
	_, group, err := s.planner.Member(r.Context(), c.MAC)
	if err != nil {
		return nil, false, err
	}
	m, err := s.versions.Bootable(c.Boot.Version)
	if err != nil {
		return nil, false, err
	}
	agent, err := s.programs.Get(r.Context(), m.Architecture)
	if err != nil {
		return nil, false, err
	}
	trust, drivers, fresh, err := s.trust(r, c, group, m)
	if err != nil {
		return nil, false, err
	}
	content, err = initrd.Join(s.store, trust, drivers, s.diskDriversOf(r.Context(), c, group, m), agent)
	return content, fresh, err
}

// ServeTrust answers GET /boot/<boot id>/trust: the trust cpio of a boot that verifies what it loads.
func (s *tokens) ServeTrust(w http.ResponseWriter, r *http.Request, id fleet.BootID) error {
	c, err := s.boots.ByID(r.Context(), id)
	if err != nil {
		return err
	}
	defer c.Unlock()
	if err := s.mayHaveToken(r, c); err != nil {
		return err
	}
	_, group, err := s.planner.Member(r.Context(), c.MAC)
	if err != nil {
		return err
	}
	m, err := s.versions.Bootable(c.Boot.Version)
	if err != nil {
		return err
	}
	trust, _, _, err := s.trust(r, c, group, m)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", fmt.Sprint(len(trust)))
	_, _ = w.Write(trust) // if this fails, the machine has closed the connection
	return nil
}

// trust returns a boot's trust cpio, and the drivers of its list. It makes a token unless one is being sent. The
// caller holds the boot's lock.
func (s *tokens) trust(
	r *http.Request,
	c *bootlog.Entry,
	group fleet.Group,
	m image.Manifest,
) (trust []byte, drivers []image.Driver, fresh bool, err error) {
	token := c.Token
	if r.Method == http.MethodHead && token == "" {
		token = identity.NewToken() // only its length counts
	} else if token == "" {
		fresh, token = true, identity.NewToken()
		err := s.boots.Save(r.Context(), c, func(b *registry.Boot) {
			b.Token, b.TokenMade = registry.HashSecret(token), s.now()
		})
		if err != nil {
			return nil, nil, false, err
		}
		c.Token = token
	}
	drivers, short := driversOf(m, c.Boot)
	cfg := s.bootConfig(c, group, token, httpapi.LocalAddr(r))
	cfg.ShortDrivers, cfg.TPM = short, fleet.ValueOf(group.Secrets).Kind() == fleet.SecretsTPM
	if l := c.Load; l.Keep {
		cfg.KernelFile = []api.KernelObject{
			{Object: l.Objects.Kernel, Size: l.KernelSize}, {Object: l.Objects.Initramfs, Size: l.InitramfsSize},
		}
	}
	trust, err = initramfs.TrustCPIO(cfg)
	return trust, drivers, fresh, err
}

// mayHaveToken returns an error unless the requester is the machine that this boot's script was sent to.
func (s *tokens) mayHaveToken(r *http.Request, c *bootlog.Entry) error {
	b, from, now := c.Boot, httpapi.RemoteAddr(r), s.now()
	switch {
	case b.Scripted.IsZero() || now.Sub(b.Scripted) > KernelTime:
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("boot %s: no script was sent in the last %s", b.ID, KernelTime),
			"the machine asks for its script first: reset it",
		)
	case b.Addr != from:
		ctx := r.Context()
		s.boots.Fail(ctx, c, trace.Initramfs, fmt.Sprintf("initramfs refused to %s: the script went to "+
			"%s", from, b.Addr),
			"somebody asks for another machine's initramfs, or its address changed in mid-boot")
		return api.NewError(api.Unauthorized, fmt.Sprintf("boot %s belongs to another address than %s", b.ID, from), "")
	case !b.TokenUsed.IsZero():
		return api.NewError(api.Conflict, fmt.Sprintf("boot %s has begun: its initramfs is not sent again", b.ID), "")
	}
	return nil
}

// bootConfig returns the configuration for the node in the trust cpio.
func (s *tokens) bootConfig(c *bootlog.Entry, group fleet.Group, token string, at netip.Addr) api.BootConfig {
	return api.BootConfig{
		Format: 1, Boot: c.Boot.ID, MAC: c.MAC, Token: token,
		Control:   []string{s.ports.ControlURL(at)},
		ServerKey: api.KeyText(s.keys.ServerPublic()),
		TrustKeys: s.keys.Ring.Trust().Accepted(),
		Release:   s.release, RebootAfter: s.planner.RebootAfter(group),
	}
}

// diskDriversOf returns the drivers of disks for a boot, nil if its group uses no disk. If they cannot be made, the
// boot goes on without them. The boot's lock is held.
func (s *tokens) diskDriversOf(ctx context.Context, c *bootlog.Entry, group fleet.Group, m image.Manifest) []byte {
	if !group.WantsDisks() {
		return nil
	}
	cpio, err := s.disks.Get(ctx, c.Boot.Version, m)
	if err != nil {
		s.boots.Record(
			ctx,
			c,
			trace.Event{Stage: trace.Initramfs, Kind: trace.Info, Message: "no drivers of disks: " + err.Error(),
				Hint: "the boot goes on without; does the image have its kernel's modules below /lib/modules?"},
		)
	}
	return cpio
}
