package server

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
	"pando/internal/ratelimit"
)

// DefaultAPIRate is how many requests a second each token, each user, and each address where nobody logs in may
// make for long.
const DefaultAPIRate = 100

const (
	rateBurst = 10     // seconds' worth of requests that may come at once
	maxRated  = 10_000 // tokens, users and addresses that are remembered
)

// Who asks too often, as it is counted.
const (
	ratedToken   = "token"
	ratedUser    = "user"
	ratedAddress = "address"
)

// rates bound how often people and their programs may ask, each for itself. Nodes are not asked to wait here, and
// neither is who may open the operator's socket.
type rates struct {
	rate    float64           // requests a second; 0: as many as they like
	refused func(kind string) // counts

	mu    sync.Mutex
	known map[string]*ratelimit.Bucket // by kind and name
}

// newRates takes what Config.APIRate says.
func newRates(rate int, refused func(kind string)) *rates {
	if rate == 0 {
		rate = DefaultAPIRate
	}
	return &rates{rate: max(float64(rate), 0), refused: refused, known: map[string]*ratelimit.Bucket{}}
}

// may counts a request. The error tells who asks too often when to ask again.
func (l *rates) may(now time.Time, kind, name string) error {
	if l.rate == 0 {
		return nil
	}
	b := l.bucket(now, kind+" "+name)
	if b.Take(now) {
		return nil
	}
	l.refused(kind)
	wait := time.Duration(math.Ceil(b.Wait(now).Seconds())) * time.Second
	e := api.NewError(api.TooMany, fmt.Sprintf("%s %s asks more than %g times a second", kind, name, l.rate),
		fmt.Sprintf("wait %s and ask again, and less often; --api-rate of `pando serve` sets how often", wait))
	e.RetryAfter = wait
	return e
}

// bucket finds or makes what somebody has left.
func (l *rates) bucket(now time.Time, key string) *ratelimit.Bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.known[key]; b != nil {
		return b
	}
	if len(l.known) >= maxRated {
		l.forget(now)
	}
	b := ratelimit.New(l.rate*rateBurst, l.rate)
	l.known[key] = b
	return b
}

// forget lets go of those who have not asked lately. Where most have, all are forgotten: looking at each for each
// new one would be slow.
func (l *rates) forget(now time.Time) {
	for key, b := range l.known {
		if b.Idle(now) {
			delete(l.known, key)
		}
	}
	if len(l.known) > maxRated/2 {
		clear(l.known)
	}
}

// bulkPath is where objects of images are sent to and fetched from: many in a row, and as fast as it goes.
const bulkPath = "/v1/store/objects"

// rated counts the request of a person who is known.
func (s *Server) rated(r *http.Request, p httpapi.Caller) error {
	if p.Kind == "" || r.URL.Path == bulkPath || strings.HasPrefix(r.URL.Path, bulkPath+"/") {
		return nil
	}
	return s.rates.may(s.now(), p.Kind, p.Name)
}

// ratedHere counts requests by the address that they come from, where there is no login.
func (s *Server) ratedHere(h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.rates.may(s.now(), ratedAddress, httpapi.RemoteNet(r)); err != nil {
			return err
		}
		return h(w, r)
	}
}
