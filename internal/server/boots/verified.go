package boots

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"pando/internal/admission"
	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/build/initramfs"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/initrd"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
)

// verifiedLoads lets machines load kernel and initramfs from nodes that have booted with them. It is for machines whose
// loader verifies digests.
type verifiedLoads struct {
	registry  Registry
	boots     *bootlog.Boots
	store     *store.Dir
	shared    *initrd.Shared
	programs  initrd.Programs
	disks     *initrd.DiskDrivers
	admission *admission.Queue
	members   members
	now       func() time.Time
	log       *slog.Logger

	mu    sync.Mutex
	reads map[chunk.ID]bool // kernels, and whether they read initrd= arguments
	asked map[fleet.BootID]bool
}

// members knows the adopted nodes.
type members interface {
	Member(ctx context.Context, mac fleet.MAC) (fleet.Node, fleet.Group, error)
}

// verifies reports whether a machine is to verify what it loads.
func verifies(q netboot.Query, g fleet.Group) bool {
	return q.Digests == netboot.Has && fleet.ValueOf(g.KernelFrom).Effective() == fleet.FromNeighbours
}

// objects returns what a boot of a plan loads. The boot's list of drivers is drivers; its lock is held.
func (s *verifiedLoads) objects(
	ctx context.Context,
	p bootplan.Plan,
	drivers string,
	efi bool,
) (bootlog.Load, error) {
	m := p.Manifest
	agent, err := s.programs.Get(ctx, m.Architecture)
	if err != nil {
		return bootlog.Load{}, err
	}
	var disks []byte
	if p.Group.WantsDisks() {
		if disks, err = s.disks.Get(ctx, p.Version, m); err != nil {
			return bootlog.Load{}, nil // the boot goes on without these drivers, from the server alone
		}
	}
	list, _ := driversOf(m, registry.Boot{Drivers: []string{drivers}})
	id, err := s.shared.Of(m.Kernel.Size, list, disks, agent)
	if err != nil {
		return bootlog.Load{}, err
	}
	keep := false
	if efi && fleet.ValueOf(p.Group.Peers).Effective() != fleet.PeersOff {
		if keep, err = s.readsArgs(m.Kernel.Object); err != nil {
			return bootlog.Load{}, err
		}
	}
	return bootlog.Load{
		Objects:    netboot.Objects{Kernel: m.Kernel.Object.Name(), Initramfs: id.Object},
		KernelSize: m.Kernel.Size, InitramfsSize: id.Size, Keep: keep, Reported: map[trace.Stage]bool{},
	}, nil
}

// readsArgs reports whether a kernel reads initrd= arguments.
func (s *verifiedLoads) readsArgs(kernel chunk.ID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reads, ok := s.reads[kernel]; ok {
		return reads, nil
	}
	f, err := s.store.Open(kernel)
	if err != nil {
		return false, err
	}
	defer f.Close()
	reads, err := netboot.ReadsInitrdArgs(f)
	if err == nil {
		s.reads[kernel] = reads
	}
	return reads, err
}

// machine returns what the admission needs to know of a machine.
func machineOf(c *bootlog.Entry, p bootplan.Plan, from netip.Addr, l bootlog.Load) netboot.Machine {
	return netboot.Machine{
		MAC: c.MAC, Address: from, Place: p.Node.Place(), Objects: l.Objects,
		Local: fleet.ValueOf(p.Group.Peers).Effective() == fleet.PeersRack,
	}
}

// OpenInitramfs opens a shared initramfs; nil: the object is none.
func (s *verifiedLoads) OpenInitramfs(id chunk.ID) (io.ReadSeekCloser, error) {
	f, err := s.shared.Open(id.Name())
	if f == nil || err != nil {
		return nil, err
	}
	return f, nil
}

// ServeHead answers GET /boot/<boot id>/head: the header of the file with kernel and initramfs that the node gets.
func (s *verifiedLoads) ServeHead(w http.ResponseWriter, r *http.Request, id fleet.BootID) error {
	c, err := s.boots.ByID(r.Context(), id)
	if err != nil {
		return err
	}
	defer c.Unlock()
	head := initramfs.Head(c.Load.KernelSize + c.Load.InitramfsSize)
	if !c.Load.Keep || head == nil {
		return api.NewError(api.NotFound, fmt.Sprintf("the script of boot %s names no such file", id), "")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(head)))
	_, _ = w.Write(head) // if this fails, the machine has closed the connection
	return nil
}

// ServeSources answers GET /boot/<boot id>/sources: the machine reports where its kernel and initramfs came from.
func (s *verifiedLoads) ServeSources(w http.ResponseWriter, r *http.Request, id fleet.BootID) error {
	c, err := s.boots.ByID(r.Context(), id)
	if err != nil {
		return err
	}
	defer c.Unlock()
	if c.Boot.Addr != httpapi.RemoteAddr(r) {
		return api.NewError(api.Unauthorized, fmt.Sprintf("boot %s belongs to another address", id), "")
	}
	if c.Load.Reported == nil { // the server has restarted since the script, or the script verifies nothing
		return api.NewError(api.NotFound, fmt.Sprintf("the script of boot %s names no sources", id), "")
	}
	report, err := netboot.ParseSource(r.URL.Query(), len(c.Load.Neighbours))
	if err != nil {
		return api.NewError(api.BadRequest, err.Error(), "")
	}
	s.record(c, report)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// record writes a report to the timeline, and tells the queue who failed. Further reports of the same object change
// nothing. The boot's lock is held.
func (s *verifiedLoads) record(c *bootlog.Entry, r netboot.SourceReport) {
	l, stage, size := &c.Load, trace.Initramfs, c.Load.InitramfsSize
	if r.Kernel {
		stage, size = trace.Kernel, l.KernelSize
	}
	if l.Reported[stage] {
		return
	}
	now := s.now()
	l.Reported[stage] = true
	var from fleet.MAC
	var failed []fleet.MAC
	for _, i := range r.Refused {
		n := l.Neighbours[i]
		failed = append(failed, n.MAC)
		s.boots.RecordBehind(c, trace.Event{Stage: stage, Kind: trace.Info,
			Message: fmt.Sprintf("node %s (%s) did not deliver it", n.Node, n.Address),
			Hint:    "it is busy, gone, or sends other bytes. If this goes on: pando boot show " + n.Node,
			Attrs:   map[string]string{trace.AttrRefused: n.Node}})
	}
	if r.From != netboot.FromServer { // what the server sends it records itself
		n := l.Neighbours[r.From]
		from = n.MAC
		s.boots.RecordBehind(c, trace.Event{Time: l.Began, Stage: stage, Kind: trace.Begin},
			trace.Event{Time: now, Stage: stage, Kind: trace.End,
				Message: fmt.Sprintf("from node %s (%s)", n.Node, n.Address),
				Bytes:   map[string]int64{trace.SourceNeighbour: size}})
	}
	l.Began = now // of the next object
	if r.Kernel {
		s.admission.Failed(failed...)
		return
	}
	s.admission.Loaded(c.MAC, from, failed...)
	c.Loaded(now)
}

// SawEvents takes a report of a boot. By an event of trace.Serves its node serves kernel and initramfs to other
// machines; by its shutdown that ends. After a restart of the server the first report of each node counts.
func (s *verifiedLoads) SawEvents(ctx context.Context, b registry.Boot, events []trace.Event) {
	if slices.ContainsFunc(events, func(e trace.Event) bool { return e.Stage == trace.Shutdown }) {
		s.admission.RemoveSource(b.MAC)
		return
	}
	tells := slices.ContainsFunc(events, func(e trace.Event) bool { return e.Attrs[trace.AttrKernelPort] != "" })
	if s.admission.SawNode(b.MAC) && !tells || !tells && !s.first(b.ID) {
		return
	}
	if err := s.serves(ctx, b); err != nil {
		s.log.Warn("node cannot serve kernel and initramfs", "node", b.Node, "err", err)
	}
}

// maxAsked bounds the boots whose nodes are known to serve nothing.
const maxAsked = 16384

// first reports whether a boot has not been asked for since this server started.
func (s *verifiedLoads) first(id fleet.BootID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked[id] {
		return false
	}
	if len(s.asked) >= maxAsked {
		clear(s.asked)
	}
	s.asked[id] = true
	return true
}

// serves lets machines load from a boot's node, if it serves anything.
func (s *verifiedLoads) serves(ctx context.Context, b registry.Boot) error {
	all, err := s.registry.Progress(ctx, b.ID)
	if err != nil {
		return err
	}
	p := all[b.ID]
	if p.Serves == nil || p.State == trace.Down || !b.Addr.IsValid() {
		return nil
	}
	node, _, err := s.members.Member(ctx, b.MAC)
	if err != nil {
		return err
	}
	s.admission.AddSource(netboot.Source{MAC: b.MAC, Node: node.Name, Prefix: p.Serves.Prefix, Place: node.Place(),
		Address: netip.AddrPortFrom(b.Addr, p.Serves.Port),
		Objects: netboot.Objects{Kernel: p.Serves.Kernel, Initramfs: p.Serves.Initramfs}})
	return nil
}
