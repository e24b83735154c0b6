package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// errandMost is how long an operator's request waits for a node: one that lives speaks about once a minute.
const errandMost = 3 * time.Minute

// errands are what operators want nodes to do, one for each boot at a time. They are in memory: whoever asked waits for
// the answer, and asks again when the server was restarted meanwhile.
type errands struct {
	mu   sync.Mutex
	open map[fleet.BootID]*errand
	wake func(context.Context, fleet.BootID) // has the node speak now; nil: it speaks when it does
}

type errand struct {
	api.Errand
	done   chan api.ErrandReport
	config map[string]string // digests of the config files that the node was handed for it
}

// give returns what a boot has to do, nil for nothing. It is given until the node has reported it: the answer that
// carried it may be lost. Nodes do no errand twice.
func (e *errands) give(boot fleet.BootID) *api.Errand {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.open[boot]; x != nil {
		return &x.Errand
	}
	return nil
}

// ask has a boot do something, and waits for its report. What has an id is done once, however often it is asked for.
func (e *errands) ask(ctx context.Context, boot fleet.BootID, what api.Errand) (api.ErrandReport, error) {
	if what.ID == "" {
		what.ID = rand.Text()
	}
	x := &errand{Errand: what, done: make(chan api.ErrandReport, 1)}
	e.mu.Lock()
	if e.open == nil {
		e.open = map[fleet.BootID]*errand{}
	}
	busy := e.open[boot] != nil
	if !busy {
		e.open[boot] = x
	}
	e.mu.Unlock()
	if busy {
		return api.ErrandReport{}, api.NewError(
			api.Conflict,
			"the node is doing something for somebody else",
			"try again in a minute",
		)
	}
	defer e.forget(boot)
	if e.wake != nil {
		e.wake(ctx, boot)
	}
	enough := time.NewTimer(errandMost)
	defer enough.Stop()
	select {
	case r := <-x.done:
		return r, nil
	case <-enough.C:
		return api.ErrandReport{}, api.NewError(
			api.Conflict,
			fmt.Sprintf("the node has not answered for %s", errandMost),
			"does it run? `pando node show` tells when it was seen",
		)
	case <-ctx.Done():
		return api.ErrandReport{}, context.Cause(ctx)
	}
}

func (e *errands) forget(boot fleet.BootID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.open, boot)
}

// report hands a node's report to who waits for it, if somebody still does.
func (e *errands) report(r api.ErrandReport) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.open[r.Boot]; x != nil && x.ID == r.ID {
		select {
		case x.done <- r:
		default: // it was reported twice
		}
	}
}

// handed notes what config files a node was handed for its errand.
func (e *errands) handed(boot fleet.BootID, digests map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.open[boot]; x != nil {
		x.config = digests
	}
}

// wasHanded returns it, and whether the node was only to look; nil when the report is about something else.
func (e *errands) wasHanded(r api.ErrandReport) (digests map[string]string, dryRun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.open[r.Boot]; x != nil && x.ID == r.ID && x.Kind == api.SyncConfig && r.Error == "" {
		return x.config, x.DryRun
	}
	return nil, false
}

// Bounds of a node's lists.
const (
	maxDisks  = 256
	maxSynced = 1024
)

// nodeErrand answers POST /v1/node/errand.
func (s *Server) nodeErrand(w http.ResponseWriter, r *http.Request) error {
	rep, err := httpapi.DecodeReport[api.ErrandReport](w, r)
	if err != nil {
		return err
	}
	b, err := s.reporter(r, api.ReportRequest{Boot: rep.Boot})
	if err != nil {
		return err
	}
	if b.Session.IsZero() {
		return api.NewError(api.Unauthorized, "the boot has no session yet", "")
	}
	rep.Error, rep.Hint = httpapi.Clip(rep.Error, httpapi.MaxMessage), httpapi.Clip(rep.Hint, httpapi.MaxMessage)
	rep.Disks = rep.Disks[:min(len(rep.Disks), maxDisks)]
	for i := range rep.Disks {
		d := &rep.Disks[i]
		for _, p := range []*string{&d.Name, &d.Model, &d.Of, &d.Has, &d.Used} {
			*p = httpapi.Clip(*p, 256)
		}
	}
	rep.Files = rep.Files[:min(len(rep.Files), maxSynced)]
	for i := range rep.Files {
		f := &rep.Files[i]
		for _, p := range []*string{&f.Path, &f.Error, &f.Run, &f.Failed} {
			*p = httpapi.Clip(*p, httpapi.MaxMessage)
		}
	}
	if err := s.synced(r.Context(), rep); err != nil {
		return err
	}
	s.errands.report(rep)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// nodeDisks answers GET /v1/nodes/{name}/disks.
func (o *operator) nodeDisks(r *http.Request) (any, error) {
	return o.errand(r, api.Errand{Kind: api.ListDisks})
}

// prepareCache answers POST /v1/nodes/{name}/cache.
func (o *operator) prepareCache(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.NodeCache](r)
	if err != nil {
		return nil, err
	}
	if req.Device == "" || req.Erase != req.Device {
		return nil, httpapi.BadRequest(fmt.Sprintf("device %q is to be erased, and %q is confirmed", req.Device, req.Erase),
			"name the device twice: all that is on it is lost")
	}
	return o.errand(
		r,
		api.Errand{Kind: api.PrepareCache, Device: req.Device, DryRun: req.DryRun, Bootable: req.Bootable},
	)
}

// errand has the node of a request do something.
func (o *operator) errand(r *http.Request, what api.Errand) (any, error) {
	var boot registry.Boot
	err := o.reg.View(r.Context(), func(tx *registry.Tx) error {
		n, err := fleetview.FindNode(tx, r.PathValue("name"))
		if err != nil {
			return err
		}
		boots, err := tx.Boots(registry.BootFilter{Node: n.Name, Limit: 1})
		if err == nil && len(boots) > 0 {
			boot = boots[0]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if boot.Session.IsZero() {
		return nil, api.NewError(api.Conflict, "the node does not run", "switch it on, and wait until it has booted")
	}
	rep, err := o.errands.ask(r.Context(), boot.ID, what)
	if err != nil {
		return nil, err
	}
	if rep.Error != "" {
		return nil, api.NewError(api.Conflict, rep.Error, rep.Hint)
	}
	if rep.Disks == nil {
		rep.Disks = []api.Disk{}
	}
	return api.DiskList{Disks: rep.Disks}, nil
}
