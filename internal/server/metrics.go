package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/metrics"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// countDHCP counts a packet before it is looked at any further.
func (s *Server) countDHCP(seen dhcp.Seen) {
	refused := seen.Reply == "" && seen.Message == "DISCOVER" && seen.Reason != "" && s.givesAddresses() &&
		seen.Client.Kind != netboot.Other
	s.metrics.DHCP(seen.Message, string(seen.Client.Kind), seen.Reply, refused)
}

// countTFTP counts a transfer that ended.
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

// openToThisMachine adds what programs read to the dashboard's pages. Without a token they read it where the
// configuration says so: the address is a loopback one then.
func (s *Server) openToThisMachine(pages http.Handler) http.Handler {
	m := httpapi.NewMux(s.log)
	guard := s.access.TokenOnly
	if s.cfg.MetricsOpen || s.cfg.DashboardOpen {
		guard = s.access.ByAddress
	}
	m.Route("GET /metrics", s.serveMetrics, guard)
	m.Route("GET /v1/sd", httpapi.JSON(s.operator().scrapeTargets), guard)
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
		m.Handle("/", pages) // which know who asks
	}
	return m
}

// journalist follows the events of boots: it counts them, and writes them into the log.
type journalist struct{ *Server }

// run follows until ctx ends or the registry closes. It begins where the registry stands: what was before has been
// counted by the process before.
func (j journalist) run(ctx context.Context) error {
	err := j.registry.Follow(ctx, j.registry.Last(), func(e trace.Event) error {
		j.write(ctx, e)
		if err := j.metrics.Event(e, pastOf{ctx, j.registry}); err != nil && ctx.Err() == nil {
			j.log.Error("metrics: an event is not counted", "boot", e.Boot, "node", e.Node, "err", err)
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// write logs what an operator would want to find again: outcomes as they are, steps for whoever looks closely.
func (j journalist) write(ctx context.Context, e trace.Event) {
	if e.Boot == "" {
		return
	}
	args := []any{"node", e.Node, "boot", e.Boot, "mac", e.MAC, "stage", e.Stage}
	for _, a := range []struct{ key, value string }{{"message", e.Message}, {"hint", e.Hint}} {
		if a.value != "" {
			args = append(args, a.key, a.value)
		}
	}
	switch {
	case e.Kind == trace.Fail:
		j.log.WarnContext(ctx, "boot failed", args...)
	case e.Stage == trace.Booted && e.Kind == trace.End:
		j.log.InfoContext(ctx, "booted", args...)
	case e.Stage == trace.Shutdown && e.Kind == trace.End:
		j.log.InfoContext(ctx, "goes down", args...)
	default:
		j.log.DebugContext(ctx, "boot "+string(e.Kind), args...)
	}
}

// pastOf reads what is on record of boots.
type pastOf struct {
	ctx context.Context
	reg *registry.Registry
}

// Before folds the events that a boot had before one.
func (p pastOf) Before(e trace.Event) (trace.Progress, error) {
	var out trace.Progress
	events, err := p.reg.Events(p.ctx, registry.EventFilter{Boot: e.Boot})
	for _, old := range events {
		if old.Seq < e.Seq {
			out.Apply(old)
		}
	}
	return out, err
}

// Run is what a boot boots. A boot that is forgotten, or whose node is, counts for nobody in particular.
func (p pastOf) Run(id fleet.BootID) (run metrics.Run, err error) {
	err = p.reg.View(p.ctx, func(tx *registry.Tx) error {
		b, err := tx.Boot(id)
		if err != nil {
			return err
		}
		run = runOf(b)
		n, err := tx.Node(b.Node)
		run.Group = n.Group
		return err
	})
	if errors.Is(err, registry.ErrNotFound) {
		err = nil
	}
	return run, err
}

// runOf is what a boot boots, without its group.
func runOf(b registry.Boot) metrics.Run {
	name, _, _, _ := b.Image.Split() // an image that was named wrongly has booted nothing
	return metrics.Run{Image: name, Version: b.Version.Short()}
}
