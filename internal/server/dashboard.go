package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"pando/internal/api"
	"pando/internal/dashboard"
	"pando/internal/registry"
)

// checkDashboard refuses an address that others than this machine's users reach: pages and tokens would go over the
// network for everybody to read.
func checkDashboard(addr string, open bool) error {
	if addr == "" || addr == "off" {
		if open {
			return errors.New("dashboard: it cannot be open and off")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("dashboard: %q is not an address and a port", addr)
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("dashboard: %s is no loopback address: its pages are for this machine only; "+
			"from elsewhere, `ssh -L 8484:localhost:8484 SERVER` brings them to your own localhost:8484", addr)
	}
	return nil
}

// listenDashboard opens the dashboard's port. A site that boots without pages is better than one that does not, so a port
// that is taken is a warning.
func (s *Server) listenDashboard(ctx context.Context, l *listeners) {
	if s.cfg.Dashboard == "" || s.cfg.Dashboard == "off" {
		return
	}
	var err error
	if l.dashboard, err = listenTCP(ctx, "dashboard", s.cfg.Dashboard); err != nil {
		s.log.Warn("no dashboard: "+err.Error(), "hint", "name another address with --dashboard, or off")
		l.dashboard = nil
		return
	}
	s.dashboardPort = port(l.dashboard)
}

// DashboardPort is the port of the dashboard, 0 for none.
func (s *Server) DashboardPort() uint16 { return s.dashboardPort }

// dashboardRoutes is the site in a browser.
func (s *Server) dashboardRoutes() (http.Handler, error) {
	d, err := dashboard.New(dashboard.Config{API: api.OverHandler(s.socketRoutes()), Feed: s.registry, Door: door{s},
		Secret: s.keys.SessionKey(), Open: s.cfg.DashboardOpen, Now: s.now, Log: s.log})
	if err != nil {
		return nil, err
	}
	return d.Handler(), nil
}

// door lets operators in by their tokens.
type door struct{ s *Server }

// Enter finds the token of a digest.
func (d door) Enter(ctx context.Context, digest [sha256.Size]byte) (context.Context, string, error) {
	t, err := d.s.validToken(ctx, registry.Hash(digest))
	if err != nil {
		return nil, "", err
	}
	return context.WithValue(ctx, operatorKey{}, t.Name), t.Name, nil
}
