package server

import (
	"fmt"
	"net/http"

	"pando/internal/api"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

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
	b, err := s.nodeAuth.Reporter(r, rep.Boot)
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
	s.errands.Report(rep)
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
	rep, err := o.errands.Do(r.Context(), boot.ID, what)
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
