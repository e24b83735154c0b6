package dashboard

import (
	"net/http"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// compareView is the content of the page that compares boots of two versions.
type compareView struct {
	api.BootComparison
	Verdict string
	Rows    []changeRow
}

type changeRow struct {
	api.BootChange
	Name string
	Bar  bar // the difference: to the right for longer, to the left for shorter
	Way  string
}

func (d *Dashboard) comparePage(r *http.Request) (view, error) {
	q := r.URL.Query()
	c, err := d.API.CompareHistory(r.Context(), fleet.Ref(q.Get("before")), fleet.Ref(q.Get("after")), q.Get("class"))
	if err != nil {
		return view{}, err
	}
	v := compareView{BootComparison: c, Verdict: verdict(c)}
	most := time.Second
	for _, x := range c.Changes {
		most = max(most, x.Shift, -x.Shift)
	}
	for _, x := range c.Changes {
		row := changeRow{BootChange: x, Name: string(x.Stage), Way: "same"}
		if x.Stage == "" {
			row.Name = "whole boot"
		}
		half := newBar(0, max(x.Shift, -x.Shift), 2*most)
		row.Bar = bar{500, half.Width}
		if x.Shift < 0 {
			row.Bar.X = 500 - half.Width
		}
		if x.Real {
			row.Way = map[bool]string{true: "longer", false: "shorter"}[x.Shift > 0]
		}
		v.Rows = append(v.Rows, row)
	}
	return view{template: "compare.html", title: "Two versions compared", data: v}, nil
}

// fewBoots is how many boots each version needs before the test can find anything.
const fewBoots = 5

// verdict returns the result of a comparison in one sentence.
func verdict(c api.BootComparison) string {
	if len(c.Changes) == 0 || c.Before.Boots < fewBoots || c.After.Boots < fewBoots {
		return "Too few boots to tell: five of each version are the least."
	}
	whole := c.Changes[0]
	if !whole.Real {
		return "No difference that is more than noise."
	}
	text := "Boots take " + strings.TrimPrefix(
		span(whole.Shift),
		"\u2212",
	) + map[bool]string{true: " longer", false: " less"}[whole.Shift > 0] + " afterwards"
	if c.Culprit != "" {
		text += ", most of it in " + string(c.Culprit)
	}
	return text + "."
}
