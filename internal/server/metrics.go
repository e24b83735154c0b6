package server

import (
	"errors"
	"io/fs"
	"net/http"

	"pando/internal/dhcp"
	"pando/internal/httpapi"
	"pando/internal/netboot"
	sitemetrics "pando/internal/server/metrics"
	"pando/internal/server/operator"
	"pando/internal/tftp"
)

// countDHCP counts a DHCP packet and whether it was answered.
func (s *Server) countDHCP(seen dhcp.Seen) {
	refused := seen.Reply == "" && seen.Message == "DISCOVER" && seen.Reason != "" && s.givesAddresses() &&
		seen.Client.Kind != netboot.Other
	s.metrics.DHCP(seen.Message, string(seen.Client.Kind), seen.Reply, refused)
}

// countTFTP counts a finished TFTP transfer by its outcome.
func (s *Server) countTFTP(t tftp.Transfer) {
	outcome := "sent"
	switch {
	case t.Probe():
		outcome = "probe"
	case errors.Is(t.Err, fs.ErrNotExist):
		outcome = "refused"
	case t.Err != nil:
		outcome = "failed"
	}
	s.metrics.TFTP(outcome, t.Bytes)
	s.sent.Add(max(t.Bytes, 0))
}

// serveMetrics answers GET /metrics.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	s.metrics.Handler().ServeHTTP(w, r)
	return nil
}

// openToThisMachine adds the routes for programs to the dashboard's pages. They need a token, unless the configuration
// opens them; the address is a loopback one then.
func (s *Server) openToThisMachine(pages http.Handler) http.Handler {
	m := httpapi.NewMux(s.log)
	guard := s.access.TokenOnly
	if s.cfg.MetricsOpen || s.cfg.DashboardOpen {
		guard = s.access.ByAddress
	}
	m.Route("GET /metrics", s.serveMetrics, guard)
	m.Route("GET /v1/sd", httpapi.JSON(operator.Targets{Registry: s.registry, Views: s.nodeViews()}.List), guard)
	answered := func(w http.ResponseWriter, r *http.Request) error {
		pages.ServeHTTP(w, r)
		return nil
	}
	m.Route("/login", answered, s.access.ByAddress)
	m.Route("/login/", answered, s.access.ByAddress)
	m.Handle("/static/", pages)
	if s.cfg.DashboardOpen {
		m.Route("/", answered, s.access.ByAddress)
	} else {
		m.Handle("/", pages) // the pages check the caller themselves
	}
	return m
}

// newLookout wires the part that collects the site's gauges for metrics.
func (s *Server) newLookout() *sitemetrics.Lookout {
	addresses := 0
	for _, n := range s.cfg.DHCP.Subnets {
		if n.First.IsValid() {
			addresses += addressCount(n.First.As4(), n.Last.As4())
		}
	}
	return sitemetrics.New(sitemetrics.Config{
		Registry: s.registry, Store: s.store, Dir: s.cfg.Dir, Addresses: addresses, State: s.faults.State,
		Loads: s.admission.Status, Packs: s.packs.Waiting, Swarm: s.swarm.Nodes, Journals: s.journals.Status,
		Now: s.now, Log: s.log,
	})
}

// addressCount returns how many addresses a range has; both ends count.
func addressCount(first, last [4]byte) int {
	number := func(a [4]byte) int { return int(a[0])<<24 | int(a[1])<<16 | int(a[2])<<8 | int(a[3]) }
	return number(last) - number(first) + 1
}
