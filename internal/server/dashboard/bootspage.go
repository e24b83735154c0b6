package dashboard

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// bootsView is the content of the page of past boots: storms, how long boots take, and the latest boots.
type bootsView struct {
	Select   string
	By       string
	Failure  string
	Storms   []stormRow
	Figures  []figureRow
	Boots    []bootRow
	Versions []string // versions that can be compared
}

type bootRow struct {
	api.Boot
	Owner string
	Mood  mood
	Took  time.Duration
	Bar   bar
}

// figureRow holds the figures of one group, version or class, on a common scale.
type figureRow struct {
	api.Figures
	Half, Most, Tail bar // to the median, from there to the 95th percentile, and from there to the longest
}

// listedBoots is how many boots a page lists, lookedBoots how many past boots it evaluates.
const (
	listedBoots = 60
	lookedBoots = 5000
)

func (d *Dashboard) bootsPage(r *http.Request) (view, error) {
	after := d.Feed.Last()
	q := r.URL.Query()
	v := bootsView{Select: strings.TrimSpace(q.Get("select")), By: cmp.Or(q.Get("by"), "group")}
	boots, err := d.API.Boots(r.Context(), v.Select, listedBoots)
	if api.IsCode(err, api.BadRequest) || api.IsCode(err, api.NotFound) {
		v.Failure, boots, err = err.Error(), nil, nil
	} else if err == nil {
		err = d.addPast(r, &v)
	}
	if err != nil {
		return view{}, err
	}
	v.Boots = bootRows(boots, d.Now())
	live := url.Values{"boots": {"1"}, "after": {strconv.FormatInt(after, 10)}}
	return view{template: "boots.html", title: "Boots", live: live.Encode(), data: v}, nil
}

// addPast adds storms and figures from the history.
func (d *Dashboard) addPast(r *http.Request, v *bootsView) error {
	past, err := d.API.History(r.Context(), api.HistoryQuery{Select: v.Select, Limit: lookedBoots})
	if err != nil {
		return err
	}
	v.Storms = stormsOf(past)
	figures, err := d.API.HistoryFigures(r.Context(), v.By, api.HistoryQuery{Select: v.Select, Limit: lookedBoots})
	if err != nil {
		return err
	}
	v.Figures = figureRows(figures.Of)
	images, err := d.API.Images(r.Context())
	for _, i := range images {
		for _, x := range i.Versions {
			if slices.ContainsFunc(past, func(b api.PastBoot) bool { return b.Version == x.Digest }) {
				v.Versions = append(v.Versions, i.Name+"@"+string(x.Digest))
			}
		}
	}
	return err
}

// figureRows returns figures on a common scale, those of most boots first.
func figureRows(all []api.Figures) []figureRow {
	scale := time.Second
	for _, f := range all {
		scale = max(scale, f.P95*5/4)
	}
	var out []figureRow
	for _, f := range all {
		row := figureRow{Figures: f, Half: newBar(0, f.P50, scale), Most: newBar(f.P50, f.P95-f.P50, scale)}
		row.Tail = newBar(f.P95, min(f.Max, scale)-min(f.P95, scale), scale)
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b figureRow) int { return cmp.Compare(b.Boots, a.Boots) })
	return out
}

// bootRows returns boots with bars on a common scale. The scale is chosen so that a single boot that hung for hours
// does not make all other bars tiny.
func bootRows(boots []api.Boot, now time.Time) (rows []bootRow) {
	var took []time.Duration
	for _, b := range boots {
		took = append(took, elapsed(b, now))
	}
	scale := max(trace.Percentile(took, 0.5)*3/2, trace.Percentile(took, 0.9), time.Second)
	for i, b := range boots {
		rows = append(rows, bootRow{b, bootOwner(b), bootMood(b.State), took[i], newBar(0, min(took[i], scale), scale)})
	}
	return rows
}
