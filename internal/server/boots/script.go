package boots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"pando/internal/admission"
	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/discovery"
	"pando/internal/endpoint"
	"pando/internal/fleet"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/initrd"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// soon is how long a machine waits when it only has to repeat its DHCP exchange.
const soon = 3 * time.Second

// scripts decides what machines do after their boot loader has started.
type scripts struct {
	registry  Registry
	boots     *bootlog.Boots
	planner   *bootplan.Planner
	discovery *discovery.Machines
	admission *admission.Queue
	disks     *initrd.DiskDrivers
	ports     *endpoint.Ports
	addresses *addresses
	refuser   *refuser
	verified  *verifiedLoads

	now func() time.Time
	log *slog.Logger
}

// ServeScript answers GET /boot/script of iPXE. The answer is always a script, because firmware shows only the number
// of an error.
func (s *scripts) ServeScript(w http.ResponseWriter, r *http.Request) error {
	base := s.ports.DataURL(httpapi.LocalAddr(r))
	q, err := netboot.ParseQuery(r.URL.RawQuery)
	if errors.Is(err, netboot.ErrNoMAC) {
		return sendScript(w, netboot.Chain(base))
	}
	from := httpapi.RemoteAddr(r)
	var in netboot.ScriptInput
	if err != nil {
		err = api.NewError(api.BadRequest, err.Error(), "")
	} else {
		in, err = s.script(r.Context(), q, from, base, true)
	}
	if err == nil && in.Admission.Hold > 0 {
		s.admission.Wait(r.Context(), q.MAC, in.Admission.Hold)
		in, err = s.script(r.Context(), q, from, base, false)
	}
	if err != nil {
		if r.Context().Err() != nil {
			return err
		}
		s.refuser.refused(r.Context(), from, trace.Script, r.URL.RequestURI(), err)
		e := httpapi.ErrorOf(err)
		in = netboot.ScriptInput{Action: netboot.Fail, Base: base, MAC: q.MAC, Message: e.Message, Hint: e.Hint}
	}
	text, err := netboot.Script(in)
	if err != nil {
		text, err = netboot.Script(
			netboot.ScriptInput{Action: netboot.Fail, Base: base, MAC: q.MAC, Message: err.Error(),
				Hint: "fix the kernel arguments of the node, its group or its image"},
		)
	}
	if err != nil {
		return err
	}
	return sendScript(w, text)
}

func sendScript(w http.ResponseWriter, text []byte) error {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = w.Write(text) // if this fails, the machine has closed the connection
	return nil
}

// script decides what a machine does now, and records it. The request of a machine that may load soon is held open
// first. If it is still not admitted then, it gets its place and requests again at once.
func (s *scripts) script(
	ctx context.Context,
	q netboot.Query,
	from netip.Addr,
	base string,
	hold bool,
) (netboot.ScriptInput, error) {
	in := netboot.ScriptInput{Base: base, MAC: q.MAC}
	if ctx.Err() != nil {
		return in, ctx.Err()
	}
	c, err := s.boots.Of(ctx, q.MAC)
	if err != nil {
		return in, err
	}
	defer c.Unlock()
	if !s.addresses.proven(c, q.MAC, from, ExchangeTime) {
		in.Action, in.Retry = netboot.Wait, soon
		in.Message = fmt.Sprintf("no DHCP exchange of this machine for address %s was seen in the last minute", from)
		in.Hint = "it does one now; if this goes on, run `pando doctor` on the server"
		if !c.UnderWay(s.now()) || s.boots.Fail(ctx, c, trace.Script, in.Message, in.Hint) {
			s.log.Warn("script refused: no DHCP exchange was seen", "mac", q.MAC, "peer", from)
		}
		return in, nil
	}
	if now := s.now(); !c.UnderWay(now) || c.Restarted(now, false) {
		s.boots.Follow(c, now)
	}
	s.boots.SetAddr(c, from)
	m, err := s.admit(ctx, c, q)
	if err != nil {
		return s.cannot(ctx, c, in, err)
	}
	if m.Node.State != fleet.Adopted {
		return s.waits(ctx, c, in, m, from)
	}
	if q.Digests == netboot.Untried {
		in.Action = netboot.Probe
		return in, nil
	}
	p, err := s.planner.Plan(ctx, m.Node, q.Hardware())
	if err != nil {
		return s.cannot(ctx, c, in, err)
	}
	drivers, err := s.driversFor(ctx, c, p, q)
	if err != nil {
		return in, err
	}
	var load bootlog.Load
	if verifies(q, p.Group) {
		if load, err = s.verified.objects(ctx, p, drivers.list, q.Platform == "efi"); err != nil {
			return s.cannot(ctx, c, in, err)
		}
	}
	answer, neighbours := s.request(c, p, from, load)
	if answer.Place > 0 {
		if !hold {
			answer.Hold, answer.Sleep = 0, 0
		}
		return s.queued(ctx, c, in, answer, from)
	}
	load.Neighbours = neighbours
	return s.start(ctx, c, in, p, drivers, from, load)
}

// request requests admission to the load of kernel and initramfs, from the server or from nodes.
func (s *scripts) request(
	c *bootlog.Entry,
	p bootplan.Plan,
	from netip.Addr,
	l bootlog.Load,
) (netboot.Admission, []netboot.Source) {
	s.admission.RemoveSource(c.MAC) // it is booting
	if l.Objects.Initramfs == "" {
		return s.admission.Request(c.MAC), nil
	}
	return s.admission.Load(machineOf(c, p, from, l))
}

// admit returns the node of a machine that requests its script. The node was known, or is discovered or adopted now.
func (s *scripts) admit(ctx context.Context, c *bootlog.Entry, q netboot.Query) (discovery.Match, error) {
	node, err := s.discovery.Node(ctx, c.MAC)
	if errors.Is(err, registry.ErrNotFound) {
		node, err = s.discovery.FromRequest(ctx, c.MAC, q.UUID)
	}
	m := discovery.Match{Node: node}
	if err == nil {
		m, err = s.discovery.Match(ctx, node, c.MAC, q.UUID, q.Serial)
	}
	if err != nil {
		return m, err
	}
	c.Boot.Node = m.Node.Name
	s.discovery.Touch(ctx, m.Node, q.UUID, q.Serial)
	for _, what := range m.Told {
		s.boots.Note(ctx, c, trace.Script, what, m.Hint)
	}
	return m, nil
}

// start answers with the script that boots a plan.
func (s *scripts) start(
	ctx context.Context,
	c *bootlog.Entry,
	in netboot.ScriptInput,
	p bootplan.Plan,
	drivers driverChoice,
	from netip.Addr,
	load bootlog.Load,
) (netboot.ScriptInput, error) {
	if p.Group.WantsDisks() {
		s.disks.Prepare(p.Version, p.Manifest) // the initramfs is requested after the kernel, some seconds from now
	}
	in.Action, in.Node, in.Image, in.Version = netboot.Start, p.Node.Name, p.Image, p.Version
	in.Kernel, in.Args = p.Manifest.Kernel.Object.Name(), p.KernelArgs()
	in.Initramfs, in.Keep = load.Objects.Initramfs, load.Keep
	for _, n := range load.Neighbours {
		in.Neighbours = append(in.Neighbours, n.Base())
	}
	began := s.now()
	err := s.boots.Save(ctx, c, func(b *registry.Boot) {
		addList(b, drivers.list)
		b.Node, b.Addr, b.Scripted, b.Image, b.Version = p.Node.Name, from, began, p.Image, p.Version
		b.Token, b.TokenMade = registry.Hash{}, time.Time{} // that token was in an initramfs that did not arrive
	})
	if err != nil {
		return in, err
	}
	in.Boot = c.Boot.ID
	c.Kernel, c.Token, c.Failure, c.Load = in.Kernel, "", "", load
	if c.DHCP == trace.Begin {
		s.boots.DHCPDone(c, from)
	}
	s.boots.Record(ctx, c, trace.Event{Time: began, Stage: trace.Script, Kind: trace.Begin},
		trace.Event{Stage: trace.Script, Kind: trace.End, Message: p.Image.Running(p.Version),
			Attrs: map[string]string{
				"version":      string(p.Version),
				"address":      from.String(),
				"drivers":      drivers.list,
				trace.AttrArgs: strings.Join(in.Args, " "),
			}})
	c.Load.Began = s.now()
	if drivers.why != "" {
		s.boots.Record(
			ctx,
			c,
			trace.Event{
				Stage:   trace.Script,
				Kind:    trace.Info,
				Message: "the drivers of every NIC are sent: " + drivers.why,
			},
		)
	}
	return in, nil
}

// waits tells a machine that is not adopted to request again.
func (s *scripts) waits(
	ctx context.Context,
	c *bootlog.Entry,
	in netboot.ScriptInput,
	m discovery.Match,
	from netip.Addr,
) (netboot.ScriptInput, error) {
	in.Action = netboot.Wait
	in.Message, in.Hint = waitsFor(m)
	if c.Saved && c.Boot.Addr == from && c.Failure == in.Message {
		return in, nil
	}
	err := s.boots.Save(ctx, c, func(b *registry.Boot) { b.Node, b.Addr = m.Node.Name, from })
	if err != nil {
		return in, err
	}
	c.Failure = in.Message
	s.boots.Record(ctx, c, trace.Event{Stage: trace.Script, Kind: trace.Begin, Message: in.Message, Hint: in.Hint})
	return in, nil
}

// waitsFor returns what a machine that is not adopted waits for.
func waitsFor(m discovery.Match) (message, do string) {
	message = "this machine is new here and waits until an operator adopts it"
	if m.Declared != "" {
		message += "; it says the serial number of node " + m.Declared
	}
	return message, "pando node adopt " + m.Node.Name
}

// cannot tells a machine why it cannot boot, and records it as a failure of its boot. An internal error of the server
// goes to the log, and in short to the machine's screen.
func (s *scripts) cannot(
	ctx context.Context,
	c *bootlog.Entry,
	in netboot.ScriptInput,
	err error,
) (netboot.ScriptInput, error) {
	in.Action, in.Message, in.Hint = netboot.Fail, err.Error(), cmp.Or(hint.Of(err), httpapi.ErrorOf(err).Hint)
	if errors.Is(err, discovery.ErrTooMany) {
		in.Action, in.Hint = netboot.Wait, "unknown machines are recorded one after another"
		return in, nil
	}
	if ctx.Err() != nil {
		return in, ctx.Err()
	}
	if err := s.boots.Save(ctx, c, func(b *registry.Boot) { b.Node = c.Boot.Node }); err != nil {
		return in, err
	}
	s.boots.Fail(ctx, c, trace.Script, in.Message, in.Hint)
	return in, nil
}
