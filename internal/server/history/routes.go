package history

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// API answers requests about past boots.
type API struct{ registry *registry.Registry }

// NewAPI returns the API of the history in a registry.
func NewAPI(reg *registry.Registry) *API { return &API{reg} }

// Routes returns the routes of the history.
func (a *API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/history", httpapi.JSON(a.listHistory)),
		httpapi.NewRoute("GET", "/v1/history/figures", httpapi.JSON(a.bootFigures)),
		httpapi.NewRoute("GET", "/v1/history/compare", httpapi.JSON(a.compareBoots)),
		httpapi.NewRoute("GET", "/v1/history/samples", httpapi.JSON(a.samples)),
		httpapi.NewRoute("GET", "/v1/history/senders", httpapi.JSON(a.senders)),
	}
}

// maxBoots limits the boots in an answer.
const maxBoots = 10_000

// defaultHistory is how many past boots an answer holds unless the request says otherwise.
const defaultHistory = 1000

// historyFilter parses the parameters that select past boots.
func (a *API) historyFilter(r *http.Request) (f registry.HistoryFilter, err error) {
	q := r.URL.Query()
	f.Group, f.Class = q.Get("group"), q.Get("class")
	if q.Get("version") != "" {
		if _, f.Version, err = fleetview.VersionParam(r, a.registry, "version", ""); err != nil {
			return f, err
		}
	}
	for _, t := range []struct {
		name string
		to   *time.Time
	}{{"since", &f.Since}, {"until", &f.Until}} {
		text := q.Get(t.name)
		if text == "" {
			continue
		}
		if *t.to, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return f, httpapi.BadRequest("parameter "+t.name+": "+text+" is not a time such as "+
				"2026-11-22T08:00:00Z", "")
		}
	}
	limit, err := httpapi.QueryInt(r, "limit", defaultHistory)
	f.Limit = int(min(max(limit, 1), maxBoots))
	return f, err
}

// listHistory answers GET /v1/history: past boots.
func (a *API) listHistory(r *http.Request) (any, error) {
	boots, err := a.history(r)
	if err != nil {
		return nil, err
	}
	out := api.History{Boots: []api.PastBoot{}}
	for _, b := range boots {
		out.Boots = append(out.Boots, pastView(b))
	}
	return out, nil
}

func (a *API) history(r *http.Request) ([]registry.PastBoot, error) {
	f, err := a.historyFilter(r)
	if err != nil {
		return nil, err
	}
	selection := r.URL.Query().Get("select")
	if selection == "" {
		return a.registry.History(r.Context(), f)
	}
	wanted := map[string]bool{}
	err = a.registry.View(r.Context(), func(tx *registry.Tx) error {
		nodes, err := fleetview.SelectNodes(tx, selection, false)
		for _, n := range nodes {
			wanted[n.Name] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit = 0
	boots, err := a.registry.History(r.Context(), f)
	boots = slices.DeleteFunc(boots, func(b registry.PastBoot) bool { return !wanted[b.Node] })
	return boots[:min(len(boots), limit)], err
}

// bootFigures answers GET /v1/history/figures: how long boots took, by the requested key.
func (a *API) bootFigures(r *http.Request) (any, error) {
	by := r.URL.Query().Get("by")
	if !slices.Contains([]string{"", "group", "version", "class", "firmware", "node"}, by) {
		return nil, httpapi.BadRequest("parameter by: "+by+" is not group, version, class, firmware or node", "")
	}
	if by == "" {
		by = "group"
	}
	boots, err := a.history(r)
	if err != nil {
		return nil, err
	}
	took, failures := map[string][]time.Duration{}, map[string]int{}
	for _, b := range boots {
		key := historyKey(b, by)
		if total, ok := b.Ends.Total(); ok {
			took[key] = append(took[key], total)
		} else if b.State == trace.Failed {
			failures[key]++
		}
		if _, known := took[key]; !known {
			took[key] = nil
		}
	}
	out := api.BootFigures{By: by, Of: []api.Figures{}}
	for key, d := range took {
		out.Of = append(out.Of, figuresView(key, trace.NewFigures("", d), failures[key]))
	}
	slices.SortFunc(out.Of, func(x, y api.Figures) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

func figuresView(name string, f trace.Figures, failures int) api.Figures {
	return api.Figures{Name: name, Boots: f.Count, Failures: failures, P50: f.P50, P95: f.P95, Max: f.Max}
}

// compareBoots answers GET /v1/history/compare: how boots of two versions differ, and whether that is more than chance.
func (a *API) compareBoots(r *http.Request) (any, error) {
	var out api.BootComparison
	var err error
	var before, after []trace.Ends
	if out.Before, before, err = a.comparedBoots(r, "before"); err != nil {
		return nil, err
	}
	if out.After, after, err = a.comparedBoots(r, "after"); err != nil {
		return nil, err
	}
	changes := trace.Compare(before, after)
	for _, c := range changes {
		out.Changes = append(
			out.Changes,
			api.BootChange{Stage: c.Stage, Before: figuresView("", c.Before, 0), After: figuresView("", c.After, 0),
				Shift: c.Shift, P: c.P, Real: c.Real},
		)
	}
	out.Culprit = trace.Culprit(changes)
	return out, nil
}

// comparedBoots returns the successful boots of a version, of the requested hardware class.
func (a *API) comparedBoots(r *http.Request, parameter string) (api.ComparedBoots, []trace.Ends, error) {
	ref, v, err := fleetview.VersionParam(r, a.registry, parameter, "")
	if err != nil {
		return api.ComparedBoots{}, nil, err
	}
	out := api.ComparedBoots{Ref: ref, Version: v}
	boots, err := a.registry.History(
		r.Context(),
		registry.HistoryFilter{
			Version: v,
			Class:   r.URL.Query().Get("class"),
			Group:   r.URL.Query().Get("group"),
			Limit:   maxBoots,
		},
	)
	var ends []trace.Ends
	for _, b := range boots {
		if _, ok := b.Ends.Total(); ok {
			ends = append(ends, b.Ends)
		} else if b.State == trace.Failed {
			out.Failures++
		}
	}
	out.Boots = len(ends)
	return out, ends, err
}
