package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"pando/internal/dhcp"
	"pando/internal/hint"
	"pando/internal/identity"
	"pando/internal/server/duties"
	"pando/internal/server/history"
	sitemetrics "pando/internal/server/metrics"
	"pando/internal/tftp"
)

// stopTime is how long running answers may take when the server stops. Nodes repeat requests that are cut off.
const stopTime = 3 * time.Second

// listeners holds all sockets except those of DHCP.
type listeners struct {
	data, control, socket net.Listener
	tftp                  *net.UDPConn // nil: off
	dashboard             net.Listener // nil: off
	netconsole            *net.UDPConn // nil: off
}

func (l *listeners) close() error {
	var err error
	for _, c := range []net.Listener{l.data, l.control, l.socket, l.dashboard} {
		if c != nil {
			err = errors.Join(err, ignoreClosed(c.Close()))
		}
	}
	for _, c := range []*net.UDPConn{l.tftp, l.netconsole} {
		if c != nil {
			err = errors.Join(err, ignoreClosed(c.Close()))
		}
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Listen opens every socket, so that an administrator sees all problems before anything runs. Run calls Listen unless
// the caller did. A *ListenError names the part and the address.
func (s *Server) Listen(ctx context.Context) (err error) {
	if s.listeners != nil {
		return nil
	}
	l := &listeners{}
	s.listeners = l
	defer func() {
		if err != nil { // so that Listen can be called again
			err = errors.Join(err, l.close())
			s.listeners = nil
		}
	}()
	if l.data, err = listenTCP(ctx, "image port", s.cfg.Data, &s.sent); err != nil {
		return err
	}
	if l.control, err = listenTCP(ctx, "control port", s.cfg.Control, &s.sent); err != nil {
		return err
	}
	s.ports.Data, s.ports.Control = port(l.data), port(l.control)
	if s.cfg.TFTP != "off" {
		if l.tftp, err = listenUDP(ctx, "TFTP", s.cfg.TFTP); err != nil {
			return err
		}
	}
	if s.cfg.Netconsole != "" && s.cfg.Netconsole != "off" {
		if l.netconsole, err = listenUDP(ctx, "netconsole", s.cfg.Netconsole); err != nil {
			return err
		}
	}
	if l.socket, err = listenSocket(ctx, s.cfg.Dir); err != nil {
		return err
	}
	s.listenDashboard(ctx, l)
	c := s.cfg.DHCP
	c.DataPort, c.Loaders = s.ports.Data, s.loaders.Names
	s.dhcp = &dhcp.Server{Config: c, Registry: s.booter, Observe: s.countDHCP, Warn: s.warnOfDHCP,
		Log: s.log, Now: s.now}
	return s.dhcp.Open(ctx)
}

func port(l net.Listener) uint16 { return l.Addr().(*net.TCPAddr).AddrPort().Port() }

// DataPort is the image port that Listen opened.
func (s *Server) DataPort() uint16 { return s.ports.Data }

// ControlPort is the control port that Listen opened.
func (s *Server) ControlPort() uint16 { return s.ports.Control }

// Run listens and serves until ctx ends, or until a part fails. A failed part stops the others, and Run returns its
// error; the end of ctx is no error.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Listen(ctx); err != nil {
		return err
	}
	secure, err := identity.ServerTLS(s.keys.Server)
	if err != nil {
		return err
	}
	pages, err := s.dashboardRoutes()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	start := func(name string, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	// The writer of events ends after all parts that record events, so that it writes their last ones.
	writing, endHistory := context.WithCancel(context.WithoutCancel(ctx))
	defer endHistory()
	written := make(chan error, 1)
	go func() { written <- s.boots.Run(writing) }()
	s.startServices(start, secure, pages)
	s.startDuties(start)
	s.log.Info("serving", "data", s.listeners.data.Addr(), "control", s.listeners.control.Addr(),
		"dhcp", s.cfg.DHCP.Mode, "boot_files", strings.Join(s.loaders.Sent(), " "))
	<-ctx.Done()
	s.log.Info("server stops", "why", context.Cause(ctx))
	wg.Wait()
	endHistory()
	if err := <-written; err != nil {
		s.log.Error("last events cannot be written", "err", err)
	}
	s.volumes.Wait()
	s.log.Info("server stopped; running nodes go on, and their reads wait until a server answers")
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// starter runs a part of the server in the background until it ends. A part that fails stops the others.
type starter func(name string, run func(context.Context) error)

// startServices starts the parts that answer on the sockets.
func (s *Server) startServices(start starter, secure *tls.Config, pages http.Handler) {
	l := s.listeners
	start("image port", func(ctx context.Context) error {
		return s.serve(ctx, l.data, s.metrics.HTTP("data", s.dataRoutes()), nil)
	})
	start("control port", func(ctx context.Context) error {
		return s.serve(ctx, l.control, s.metrics.HTTP("control", s.controlRoutes()), secure)
	})
	start("operator's socket", func(ctx context.Context) error {
		return s.serve(ctx, l.socket, s.metrics.HTTP("socket", s.socketRoutes()), nil)
	})
	if l.dashboard != nil {
		start("dashboard", func(ctx context.Context) error {
			return s.serve(ctx, l.dashboard, s.metrics.HTTP("dashboard", s.openToThisMachine(pages)), s.webTLS())
		})
		scheme := "http://"
		if s.web != nil {
			scheme = "https://"
		}
		s.log.Info("dashboard", "url", scheme+l.dashboard.Addr().String(), "login", !s.cfg.DashboardOpen)
	}
	if l.tftp != nil {
		t := &tftp.Server{Files: tftp.FilesFunc(s.booter.OpenTFTP), Log: s.log, Done: s.observeTFTP,
			Known: s.booter.KnownAt}
		start("TFTP", func(ctx context.Context) error { return t.Serve(ctx, l.tftp) })
	}
	if l.netconsole != nil {
		start("netconsole", func(ctx context.Context) error { return s.consoles.Run(ctx, l.netconsole) })
	}
	start("DHCP", s.dhcp.Run)
}

// startDuties starts the parts that work without a request.
func (s *Server) startDuties(start starter) {
	start("agent", func(ctx context.Context) error { s.prepareAgent(ctx); return nil })
	start("housekeeping", func(ctx context.Context) error {
		duties.Housekeeping(ctx, s.registry, s.now, s.log, s.volumes.PruneSwap, s.state.SettleCopies)
		return nil
	})
	start("boot packs", s.packs.Run)
	start("history", history.NewRecorder(s.registry, s.log).Run)
	start("samples", s.sampler.Run)
	start("rollouts", s.rollouts.Run)
	start("power", s.power.Run)
	start("journal", sitemetrics.NewFollower(s.registry, s.metrics, s.log).Run)
	start("metrics", s.lookout.CountStore)
	start("store", s.collector.Run)
	start("disk", s.registry.WatchDisk)
}

// serve answers HTTP until ctx ends. If secure is nil, it is plain HTTP.
func (s *Server) serve(ctx context.Context, l net.Listener, h http.Handler, secure *tls.Config) error {
	srv := s.newHTTP(ctx, h)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		deadline, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if srv.Shutdown(deadline) != nil {
			_ = srv.Close() // clients that are cut off repeat their requests
		}
	})
	var err error
	if secure != nil {
		srv.TLSConfig = secure
		err = srv.ServeTLS(l, "", "")
	} else {
		err = srv.Serve(l)
	}
	if stop() { // Serve ended before ctx
		return err
	}
	<-stopped
	return nil
}

// prepareAgent makes the agent cpio for nodes of this machine's architecture. For other architectures it is made at the
// first boot.
func (s *Server) prepareAgent(ctx context.Context) {
	a := s.agents[runtime.GOARCH]
	if a == nil {
		return
	}
	if err := a.Prepare(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("agent cpio cannot be made", "err", err, "hint", hint.Of(err))
	}
}

// DHCP returns the state of the DHCP server on each interface; nil before Listen.
func (s *Server) DHCP() []dhcp.State {
	if s.dhcp == nil {
		return nil
	}
	return s.dhcp.States()
}
