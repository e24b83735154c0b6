package history

import (
	"net/http"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
)

// maxSampled is the longest time of which one answer holds samples.
const maxSampled = 24 * time.Hour

// samples answers GET /v1/history/samples: the traffic of servers.
func (a *API) samples(r *http.Request) (any, error) {
	f, err := a.historyFilter(r)
	if err != nil {
		return nil, err
	}
	if f.Since.IsZero() || f.Until.IsZero() || f.Until.Sub(f.Since) > maxSampled {
		return nil, httpapi.BadRequest("parameters since and until: an answer holds samples of one day at most", "")
	}
	all, err := a.registry.Samples(r.Context(), f.Since, f.Until)
	out := api.Samples{Samples: make([]api.Sample, len(all))}
	for i, s := range all {
		out.Samples[i] = api.Sample(s)
	}
	return out, err
}

// senders answers GET /v1/history/senders: which peers and servers sent boots their roots.
func (a *API) senders(r *http.Request) (any, error) {
	f, err := a.historyFilter(r)
	if err != nil {
		return nil, err
	}
	if f.Since.IsZero() || f.Until.IsZero() {
		return nil, httpapi.BadRequest("parameters since and until: both are needed", "")
	}
	all, err := a.registry.Feedings(r.Context(), f.Since, f.Until, maxBoots)
	out := api.Feedings{Boots: make([]api.Feeding, len(all))}
	for i, b := range all {
		v := api.Feeding{Boot: b.Boot, Node: b.Node, Place: b.Place, From: make([]api.Sender, len(b.From))}
		for j, s := range b.From {
			v.From[j] = api.Sender(s)
		}
		out.Boots[i] = v
	}
	return out, err
}
