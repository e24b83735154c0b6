package server

import (
	"net/http"
	"time"

	"pando/internal/registry"
	"pando/internal/trace"
)

// sightFor is how long is remembered which nodes somebody may know of, while they follow events.
const sightFor = 2 * time.Second

// sight tells which events somebody may see.
type sight struct {
	o   *operator
	r   *http.Request
	own map[string]bool
	at  time.Time
}

func (o *operator) sight(r *http.Request) *sight { return &sight{o: o, r: r} }

// has reports whether an event is of a node or group that who asks may know of. What cannot be told is not shown.
func (s *sight) has(e trace.Event) bool {
	groups := registry.LimitOf(s.r.Context())
	if groups == nil {
		return true
	}
	if e.Node == "" {
		for _, g := range groups {
			if e.Stage == trace.Rollout && e.Attrs["group"] == g {
				return true
			}
		}
		return false
	}
	if now := time.Now(); s.own == nil || now.Sub(s.at) > sightFor {
		own, err := s.o.owned(s.r)
		if err != nil {
			return false
		}
		s.own, s.at = own, now
	}
	return s.own[e.Node]
}
