package power

import (
	"fmt"
	"net/http"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/power"
	"pando/internal/registry"
)

// Routes returns the routes of power and of the passwords of management controllers.
func (p *Controller) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/power", httpapi.JSON(p.listPower)),
		httpapi.NewRoute("POST", "/v1/nodes/{name}/power", httpapi.JSON(p.switchNode)),
		httpapi.NewRoute("PUT", "/v1/nodes/{name}/password", httpapi.JSON(p.setNodePassword)),
		httpapi.NewRoute("PUT", "/v1/groups/{name}/password", httpapi.JSON(p.setGroupPassword)),
	}
}

// listPower answers GET /v1/power.
func (p *Controller) listPower(r *http.Request) (any, error) {
	out := api.PowerList{Nodes: []api.PowerView{}}
	err := p.registry.View(r.Context(), func(tx *registry.Tx) error {
		nodes, err := fleetview.SelectNodes(tx, r.URL.Query().Get("select"), true)
		if err != nil {
			return err
		}
		all, err := p.of(tx, nodes)
		for _, x := range all {
			out.Nodes = append(out.Nodes, p.view(x))
		}
		return err
	})
	return out, err
}

// view describes for the API how a node is switched.
func (p *Controller) view(x powered) api.PowerView {
	v := api.PowerView{
		Node:     x.node.Name,
		Method:   x.to.Method,
		Address:  x.to.Host,
		User:     x.to.User,
		Password: x.password != "",
	}
	if x.to.Method == fleet.PowerCommand {
		v.Address = x.to.Command
	}
	if x.problem != nil {
		v.Problem = x.problem.Error()
	}
	on, known := p.wanted(x)
	if known {
		v.Wanted = string(onOrOff(on))
		v.WantedBy = fleet.SettingHours
		if now := p.now().In(x.zone); x.wish != nil {
			if x.hours == nil {
				v.WantedBy = x.wish.Who
			} else if _, _, later := x.hours.Edge(x.wish.At, now); !later {
				v.WantedBy = x.wish.Who
			}
		}
	}
	quiet, ever := p.quiet(x)
	if ever {
		v.Quiet = max(quiet, time.Nanosecond)
	} else {
		quiet = power.GivenUp
	}
	v.GivenUp = x.to.Method != fleet.PowerNone &&
		power.Sweep(power.Seen{Wanted: on || !known, Quiet: quiet, State: power.Unknown}) != ""
	return v
}

// switchNode answers POST /v1/nodes/{name}/power.
func (p *Controller) switchNode(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.PowerDo](r)
	if err != nil {
		return nil, err
	}
	switch req.Action {
	case api.PowerOn,
		api.PowerOff,
		api.PowerCycle,
		api.PowerStatus,
		api.PowerWake,
		api.PowerReboot,
		api.PowerKexec,
		api.PowerSoftReboot,
		api.PowerStage,
		api.PowerAuto:
	default:
		return nil, httpapi.BadRequest(
			fmt.Sprintf(
				"action %q: want on, off, cycle, status, wake, reboot, kexec, soft-reboot, auto or stage",
				req.Action,
			),
			"",
		)
	}
	var x []powered
	err = p.registry.View(r.Context(), func(tx *registry.Tx) error {
		n, err := fleetview.FindNode(tx, r.PathValue("name"))
		if err == nil {
			x, err = p.of(tx, []fleet.Node{n})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.do(r.Context(), x[0], req, httpapi.CallerName(r))
}

func (p *Controller) setNodePassword(r *http.Request) (any, error) {
	return p.setPassword(r, registry.PowerOfNode)
}

func (p *Controller) setGroupPassword(r *http.Request) (any, error) {
	return p.setPassword(r, registry.PowerOfGroup)
}

// setPassword seals and records the password of management controllers.
func (p *Controller) setPassword(r *http.Request, of registry.PowerOwner) (any, error) {
	req, err := httpapi.Body[api.PowerPassword](r)
	if err != nil {
		return nil, err
	}
	if len(req.Password) > 128 {
		return nil, httpapi.BadRequest("the password has more than 128 characters", "")
	}
	return nil, p.registry.Update(r.Context(), func(tx *registry.Tx) error {
		name := r.PathValue("name")
		if of == registry.PowerOfGroup {
			if _, err := tx.Group(name); err != nil {
				return err
			}
		} else {
			n, err := fleetview.FindNode(tx, name)
			if err != nil {
				return err
			}
			name = n.Name
		}
		var sealed []byte
		if req.Password != "" {
			sealed = p.keys.Seal(sealedFor(of), []byte(req.Password))
		}
		return tx.PutPowerPassword(of, name, sealed)
	})
}
