package operator

import (
	"fmt"
	"net/http"

	"pando/internal/api"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodecommand"
	"pando/internal/registry"
)

// commandAPI sends commands to running nodes.
type commandAPI struct {
	reg      *registry.Registry
	commands *nodecommand.Queue
}

// nodeDisks answers GET /v1/nodes/{name}/disks.
func (a *commandAPI) nodeDisks(r *http.Request) (any, error) {
	return a.do(r, api.NodeCommand{Kind: api.ListDisks})
}

// prepareCache answers POST /v1/nodes/{name}/cache.
func (a *commandAPI) prepareCache(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.NodeCache](r)
	if err != nil {
		return nil, err
	}
	if req.Device == "" || req.Erase != req.Device {
		return nil, httpapi.BadRequest(fmt.Sprintf("device %q is to be erased, and %q is "+
			"confirmed", req.Device, req.Erase),
			"name the device twice: all that is on it is lost")
	}
	return a.do(
		r,
		api.NodeCommand{Kind: api.PrepareCache, Device: req.Device, DryRun: req.DryRun, Bootable: req.Bootable},
	)
}

// do sends a command to the node that a request names, and waits for its result.
func (a *commandAPI) do(r *http.Request, what api.NodeCommand) (any, error) {
	var boot registry.Boot
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
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
	rep, err := a.commands.Do(r.Context(), boot.ID, what)
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
