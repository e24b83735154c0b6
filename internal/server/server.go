package server

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"pando/internal/identity"
	"pando/internal/registry"
	"pando/internal/store"
)

// Server is a site's server.
type Server struct {
	cfg      Config
	log      *slog.Logger
	now      func() time.Time
	started  time.Time
	keys     identity.Keys
	registry *registry.Registry
	store    *store.Dir
}

// New opens what is kept in the data directory, and makes it at the first start. It listens to nothing yet.
func New(ctx context.Context, c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, log: c.Log, now: c.Now, started: c.Now()}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) (err error) {
	if s.keys, err = identity.Open(filepath.Join(s.cfg.Dir, "keys")); err != nil {
		return err
	}
	if s.store, err = store.OpenDir(filepath.Join(s.cfg.Dir, "store")); err != nil {
		return err
	}
	s.registry, err = registry.Open(ctx, registry.Options{Dir: s.cfg.Dir, Log: s.log, MaxEvents: s.cfg.MaxEvents})
	return err
}

// Close closes what New opened. Run must have returned.
func (s *Server) Close() error {
	if s.registry == nil {
		return nil
	}
	return s.registry.Close()
}

// Run listens and serves until ctx ends, which is no error, or until a part fails.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
