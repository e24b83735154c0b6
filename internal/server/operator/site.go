package operator

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/hint"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// StatusFaults is how many faulty boots the status of the site lists at most.
const StatusFaults = 10

// siteAPI answers requests about the whole site.
type siteAPI struct {
	reg     *registry.Registry
	views   fleetview.Nodes
	faults  Faults
	release string
	started time.Time
	now     func() time.Time
	dhcp    func(*registry.Tx) (api.DHCP, error)
	ports   func() []api.Port
	loads   func() api.Loads
	logs    func() api.Logs
	whole   func(fleet.Digest) error // returns why a version cannot boot, nil if it can
}

func (a *siteAPI) status(r *http.Request) (any, error) {
	out := api.Status{
		Release: a.release, Started: a.started, Time: a.now(), Loads: a.loads(), Logs: a.logs(),
		Ports: a.ports(),
		Nodes: map[string]int{}, Stages: map[trace.Stage]int{}, Bytes: map[string]int64{},
	}
	if d := a.reg.FullDisk(); d != nil {
		out.Disk = &api.FullDisk{Since: d.Since, Free: d.Free, Reserved: d.Reserved, InMemory: d.InMemory,
			Do: registry.MakeRoom}
	}
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		p, err := tx.Policy()
		if err != nil {
			return err
		}
		out.Policy = api.Policy(p)
		if out.DHCP, err = a.dhcp(tx); err != nil {
			return err
		}
		groups, err := tx.Groups()
		if err != nil {
			return err
		}
		secrets, err := tx.Secrets()
		if err != nil {
			return err
		}
		for _, s := range secrets {
			if len(s.ForClasses()) > 0 {
				out.ClassSecrets = append(out.ClassSecrets, s.Name)
			}
		}
		if out.Groups, err = fleetview.Groups(tx, groups); err != nil {
			return err
		}
		if out.Rollouts, err = fleetview.Rollouts(tx, registry.RolloutFilter{Live: true}); err != nil {
			return err
		}
		nodes, err := tx.Nodes()
		if err != nil {
			return err
		}
		views, err := a.views.Views(r.Context(), tx, nodes)
		for _, n := range views {
			countNode(&out, n)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Broken = a.broken(out.Groups)
	own, err := fleetview.OwnNodes(r.Context(), a.reg)
	if err != nil {
		return nil, err
	}
	failed, err := a.faults.List(r.Context(), own)
	out.Failed, out.Trouble = len(failed), failed[:min(len(failed), StatusFaults)]
	return out, err
}

// broken lists the incomplete versions that groups boot.
func (a *siteAPI) broken(groups []api.Group) (out []api.BrokenVersion) {
	by := map[fleet.Digest][]string{}
	for _, g := range groups {
		if g.Desired != "" {
			by[g.Desired] = append(by[g.Desired], g.Name)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(by)) {
		if err := a.whole(v); err != nil {
			out = append(out, api.BrokenVersion{Version: v, Groups: by[v], Problem: err.Error(), Do: hint.Of(err)})
		}
	}
	return out
}

// countNode adds a node to the counts of a status.
func countNode(out *api.Status, n api.Node) {
	out.Nodes[string(n.State)]++
	if n.Boot == nil {
		return
	}
	for source, bytes := range n.Boot.Bytes {
		out.Bytes[source] += bytes
	}
	if n.State != fleet.Adopted {
		return
	}
	out.Nodes[string(n.Boot.State)]++
	if n.Drift {
		out.Nodes["drift"]++
	}
	if n.Status != nil && n.Boot.State.Runs() && n.Status.Fullness() > fleet.Roomy {
		out.Full = append(out.Full, n.Name)
	}
	if n.Boot.State == trace.Booting || n.Boot.State == trace.Failed {
		out.Stages[n.Boot.Stage]++
	}
}

func (a *siteAPI) listLeases(r *http.Request) (any, error) {
	out := api.LeaseList{}
	err := a.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		out.Leases, err = tx.Leases()
		return err
	})
	if out.Leases == nil {
		out.Leases = []fleet.Lease{}
	}
	return out, err
}

// deleteLease deletes the lease of an address. A node's fixed address stays reserved for the node.
func (a *siteAPI) deleteLease(r *http.Request) (any, error) {
	addr, err := netip.ParseAddr(r.PathValue("address"))
	if err != nil {
		return nil, httpapi.BadRequest("not an address: "+r.PathValue("address"), "`pando lease list` shows them")
	}
	return nil, a.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.DeleteLease(addr) })
}

func (a *siteAPI) showPolicy(r *http.Request) (any, error) {
	var p registry.Policy
	err := a.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		p, err = tx.Policy()
		return err
	})
	return api.Policy(p), err
}

func (a *siteAPI) setPolicy(r *http.Request) (any, error) {
	p, err := httpapi.Body[api.Policy](r)
	if err != nil {
		return nil, err
	}
	if p.Adoption != fleet.Open && p.Adoption != fleet.Approve {
		return nil, httpapi.BadRequest("adoption policy "+string(p.Adoption)+": use open or approve", "")
	}
	if _, err := fleet.ParseNaming(p.Naming); err != nil {
		return nil, httpapi.Invalid(err)
	}
	return p, a.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.PutPolicy(registry.Policy(p)) })
}
