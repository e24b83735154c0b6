package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"pando/internal/api"
	"pando/internal/identity"
	"pando/internal/server/dashboard"
)

// OwnCertificate is the value of Config.DashboardCert for a certificate signed by the site's own authority.
const OwnCertificate = "own"

// checkDashboard refuses an address that other machines can reach, unless there is TLS: else pages and passwords would
// be readable on the network.
func (c Config) checkDashboard() error {
	addr, open := c.Dashboard, c.DashboardOpen || c.MetricsOpen
	if addr == "" || addr == "off" {
		if open || c.DashboardCert != "" {
			return errors.New("dashboard: it cannot be off, and be open, have open metrics or a certificate")
		}
		return nil
	}
	if own := c.DashboardCert == OwnCertificate; (c.DashboardCert != "" && !own) != (c.DashboardKey != "") {
		return errors.New("dashboard: a certificate in a file needs its key in a file, and nothing else does")
	}
	if !onLoopback(addr) && c.DashboardCert == "" {
		return fmt.Errorf(
			"dashboard: %s is no loopback address: without a certificate its pages are for this machine only; "+
				"--dashboard-cert own makes one, or `ssh -L 8484:localhost:8484 SERVER` brings the pages to your "+
				"own localhost:8484",
			addr,
		)
	}
	if open && !onLoopback(addr) {
		return fmt.Errorf("dashboard: %s is no loopback address, and it cannot be open to everybody there", addr)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("dashboard: %q is not an address and a port", addr)
	}
	return nil
}

// onLoopback reports whether only this machine reaches an address.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// listenDashboard opens the dashboard's port. A port that is taken or a certificate that cannot be read is only a
// warning: a site that boots nodes without a dashboard is better than one that does not boot.
func (s *Server) listenDashboard(ctx context.Context, l *listeners) {
	if s.cfg.Dashboard == "" || s.cfg.Dashboard == "off" {
		return
	}
	err := s.openCertificate()
	if err == nil {
		l.dashboard, err = listenTCP(ctx, "dashboard", s.cfg.Dashboard, new(atomic.Int64)) // its traffic is not counted
	}
	if err != nil {
		s.log.Warn("no dashboard: "+err.Error(), "hint", "fix this, name another address with --dashboard, or off")
		l.dashboard = nil
		return
	}
	s.dashboardPort = port(l.dashboard)
}

// openCertificate makes or reads the certificate for browsers.
func (s *Server) openCertificate() (err error) {
	switch s.cfg.DashboardCert {
	case "":
	case OwnCertificate:
		s.web, err = identity.OwnWebCertificate(filepath.Join(s.cfg.Dir, "keys"), s.webNames(), s.now)
	default:
		s.web, err = identity.GivenWebCertificate(s.cfg.DashboardCert, s.cfg.DashboardKey, s.now)
	}
	return err
}

// webNames are the names and addresses under which browsers reach this machine.
func (s *Server) webNames() identity.WebNames {
	n := identity.WebNames{Hosts: []string{"localhost"}}
	if host, err := os.Hostname(); err == nil && !slices.Contains(n.Hosts, host) {
		n.Hosts = append(n.Hosts, host)
	}
	if s.cfg.DashboardName != "" && !slices.Contains(n.Hosts, s.cfg.DashboardName) {
		n.Hosts = append(n.Hosts, s.cfg.DashboardName)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		s.log.Warn("dashboard certificate lacks this machine's addresses: they cannot be listed", "err", err)
	}
	for _, a := range addrs {
		if p, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(p.IP); ok {
				n.Addrs = append(n.Addrs, ip.Unmap())
			}
		}
	}
	return n
}

// webTLS returns the TLS configuration of the dashboard, nil for plain HTTP.
func (s *Server) webTLS() *tls.Config {
	if s.web == nil {
		return nil
	}
	return s.web.TLS()
}

// webHosts returns the host names that the dashboard accepts besides addresses and localhost.
func (s *Server) webHosts() []string {
	if s.web == nil {
		return nil
	}
	return s.web.Hosts()
}

// DashboardPort is the port of the dashboard, 0 for none.
func (s *Server) DashboardPort() uint16 { return s.dashboardPort }

// dashboardRoutes returns the handler of the dashboard's port.
func (s *Server) dashboardRoutes() (http.Handler, error) {
	cfg := dashboard.Config{API: api.OverHandler(s.socketRoutes()), Feed: s.registry, Door: s.access,
		Secret: s.keys.SessionKey(), Open: s.cfg.DashboardOpen, Hosts: s.webHosts(), Now: s.now, Log: s.log}
	if s.journals.Kept() {
		cfg.Journals = s.journals
	}
	if login := s.access.OIDC(); login != nil {
		cfg.Provider = login
	}
	d, err := dashboard.New(cfg)
	if err != nil {
		return nil, err
	}
	return d.Handler(), nil
}
