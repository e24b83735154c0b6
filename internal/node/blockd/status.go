package blockd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"pando/internal/blockapi"
	"pando/internal/link"
)

// statusServer answers requests on the block daemon's socket.
type statusServer struct {
	status     func(since int64) blockapi.Status
	setNetwork func(link.Network) error
	endReads   func() blockapi.Recording
	booted     func()
	leave      func(context.Context)
	hold       func(on bool) blockapi.Held
}

// serveStatus listens on path until ctx ends. It replaces an existing socket. Only root may connect.
func serveStatus(ctx context.Context, path string, s *statusServer, log *slog.Logger) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("status socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("status socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return fmt.Errorf("status socket: %w", err)
	}
	srv := &http.Server{Handler: s.routes(), ReadTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		MaxHeaderBytes: 8 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	context.AfterFunc(ctx, func() { srv.Close() })
	go srv.Serve(l)
	return nil
}

func (s *statusServer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		since, err := strconv.ParseInt(r.FormValue("since"), 10, 64)
		if err != nil && r.FormValue("since") != "" {
			http.Error(w, "since is not a number", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.status(since)) // fails only if the client is gone
	})
	mux.HandleFunc("PUT /network", func(w http.ResponseWriter, r *http.Request) {
		var n link.Network
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
		d.DisallowUnknownFields()
		err := d.Decode(&n)
		if err == nil {
			err = s.setNetwork(n)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /reads", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.endReads()) // the client is gone: it may ask again
	})
	mux.HandleFunc("POST /booted", func(w http.ResponseWriter, _ *http.Request) {
		s.booted()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /hold", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.hold(r.FormValue("on") != "")) // the client is gone: it may ask again
	})
	mux.HandleFunc("POST /leave", func(w http.ResponseWriter, r *http.Request) {
		s.leave(r.Context())
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
