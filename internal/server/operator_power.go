package server

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

// listPower answers GET /v1/power.
func (o *operator) listPower(r *http.Request) (any, error) {
	out := api.PowerList{Nodes: []api.PowerView{}}
	err := o.reg.View(r.Context(), func(tx *registry.Tx) error {
		nodes, err := fleetview.SelectNodes(tx, r.URL.Query().Get("select"), true)
		if err != nil {
			return err
		}
		all, err := o.powers.of(tx, nodes)
		for _, x := range all {
			out.Nodes = append(out.Nodes, o.powers.view(x))
		}
		return err
	})
	return out, err
}

// view is how a node is switched, for people.
func (p *powers) view(x powered) api.PowerView {
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
func (o *operator) switchNode(r *http.Request) (any, error) {
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
		api.PowerAnew:
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
	err = o.reg.View(r.Context(), func(tx *registry.Tx) error {
		n, err := fleetview.FindNode(tx, r.PathValue("name"))
		if err == nil {
			x, err = o.powers.of(tx, []fleet.Node{n})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return o.powers.do(r.Context(), x[0], req, httpapi.CallerName(r))
}

func (o *operator) setNodePassword(r *http.Request) (any, error) {
	return o.setPassword(r, registry.PowerOfNode)
}

func (o *operator) setGroupPassword(r *http.Request) (any, error) {
	return o.setPassword(r, registry.PowerOfGroup)
}

// setPassword keeps the password of controllers, sealed.
func (o *operator) setPassword(r *http.Request, of registry.PowerOwner) (any, error) {
	req, err := httpapi.Body[api.PowerPassword](r)
	if err != nil {
		return nil, err
	}
	if len(req.Password) > 128 {
		return nil, httpapi.BadRequest("the password has more than 128 characters", "")
	}
	return nil, o.reg.Update(r.Context(), func(tx *registry.Tx) error {
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
			sealed = o.powers.keys.Seal(sealedFor(of), []byte(req.Password))
		}
		return tx.PutPowerPassword(of, name, sealed)
	})
}

// knownZone refuses hours of a time zone that there is not.
func knownZone(s fleet.Settings) error {
	h := fleet.ValueOf(s.Hours)
	t, err := h.Parse()
	if h == "" || err != nil || t.Zone == "" {
		return nil // the validation says what is wrong
	}
	if _, err := time.LoadLocation(t.Zone); err != nil {
		return httpapi.BadRequest(
			fmt.Sprintf("hours: there is no time zone %q here", t.Zone),
			"name it like Europe/Berlin, or UTC",
		)
	}
	return nil
}
