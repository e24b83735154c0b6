package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// bootsView is the list of boots.
type bootsView struct {
	Select  string
	Failure string
	Boots   []bootRow
	Slow    time.Duration
}

type bootRow struct {
	api.Boot
	Owner string
	Mood  mood
	Took  time.Duration
	Bar   bar
}

// listedBoots is how many boots one page shows.
const listedBoots = 100

func (d *Dashboard) bootsPage(r *http.Request) (view, error) {
	after := d.Feed.Last()
	v := bootsView{Select: strings.TrimSpace(r.URL.Query().Get("select"))}
	boots, err := d.API.Boots(r.Context(), v.Select, listedBoots)
	if api.IsCode(err, api.BadRequest) || api.IsCode(err, api.NotFound) {
		v.Failure, err = err.Error(), nil
	}
	if err != nil {
		return view{}, err
	}
	v.Boots, v.Slow = bootRows(boots, d.Now())
	live := url.Values{"boots": {"1"}, "after": {strconv.FormatInt(after, 10)}}
	return view{template: "boots.html", title: "Boots", live: live.Encode(), data: v}, nil
}

// bootRows are boots with bars on one scale. One boot that was stuck for hours does not flatten the others.
func bootRows(boots []api.Boot, now time.Time) (rows []bootRow, scale time.Duration) {
	var took []time.Duration
	for _, b := range boots {
		took = append(took, elapsed(b, now))
	}
	scale = max(2*trace.Percentile(took, 0.5), trace.Percentile(took, 0.9), time.Second)
	for i, b := range boots {
		rows = append(rows, bootRow{b, bootOwner(b), bootMood(b.State), took[i], newBar(0, min(took[i], scale), scale)})
	}
	return rows, scale
}
