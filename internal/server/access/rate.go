package access

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

// DefaultRate is the limit of requests a second for each token, each user and, without a login, each address.
const DefaultRate = 100

const (
	rateBurst = 10     // a burst may have as many requests as the rate allows in this many seconds
	maxRated  = 10_000 // tokens, users and addresses that are counted
)

// Kinds of callers, as the metrics count refused requests.
const (
	ratedToken   = "token"
	ratedUser    = "user"
	ratedAddress = "address"
)

// rates limits the requests of each operator, program or address. Nodes and callers on the unix socket are not limited.
type rates struct {
	rate    float64           // requests a second; 0: no limit
	refused func(kind string) // counts refused requests

	mu    sync.Mutex
	known map[string]*ratelimit.Bucket // by kind and name
}

// newRates makes a rates; rate is Config.Rate.
func newRates(rate int, refused func(kind string)) *rates {
	if rate == 0 {
		rate = DefaultRate
	}
	return &rates{rate: max(float64(rate), 0), refused: refused, known: map[string]*ratelimit.Bucket{}}
}

// may counts a request. If it is above the rate, the error says when to try again.
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
	e := api.NewError(api.TooMany, fmt.Sprintf("%s %s sends more than %g requests a second", kind, name, l.rate),
		fmt.Sprintf("wait %s, then send fewer requests; --api-rate of `pando serve` sets the limit", wait))
	e.RetryAfter = wait
	return e
}

// bucket returns the bucket of a caller and makes it if needed.
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

// forget deletes idle callers. If more than half remain, it deletes all; else each new caller would cause another scan.
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

// bulkPath is where clients send and fetch objects of images. These requests are many, so they are not limited.
const bulkPath = "/v1/store/objects"

// rated counts a request of a known caller and returns an error if it is above the rate.
func (g *Guard) rated(r *http.Request, p httpapi.Caller) error {
	if p.Kind == "" || r.URL.Path == bulkPath || strings.HasPrefix(r.URL.Path, bulkPath+"/") {
		return nil
	}
	return g.rates.may(g.now(), p.Kind, p.Name)
}

// ByAddress limits requests by their address, for routes that need no login.
func (g *Guard) ByAddress(h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := g.rates.may(g.now(), ratedAddress, httpapi.RemoteNet(r)); err != nil {
			return err
		}
		return h(w, r)
	}
}
