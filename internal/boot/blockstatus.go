package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// statusServer answers on the block daemon's socket.
type statusServer struct {
	status     func(since int64) BlockStatus
	setNetwork func(Network) error
	endReads   func() Recording
	booted     func()
	leave      func(context.Context)
}

// serveStatus listens on path, which is replaced, until ctx is done. Only root may connect.
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
		_ = json.NewEncoder(w).Encode(s.status(since)) // the client is gone: its loss
	})
	mux.HandleFunc("PUT /network", func(w http.ResponseWriter, r *http.Request) {
		var n Network
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
	mux.HandleFunc("POST /leave", func(w http.ResponseWriter, r *http.Request) {
		s.leave(r.Context())
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// BlockClient asks the block daemon over its socket.
type BlockClient struct {
	Socket string // "/run/pando/block.sock"
}

// Status returns the counters, and the incidents after since.
func (c BlockClient) Status(ctx context.Context, since int64) (BlockStatus, error) {
	var s BlockStatus
	b, err := c.do(ctx, http.MethodGet, "/status?since="+strconv.FormatInt(since, 10), nil)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return BlockStatus{}, fmt.Errorf("status of the block daemon: %w", err)
	}
	return s, nil
}

// SetNetwork tells the daemon what to keep up from now on, after the lease changed.
func (c BlockClient) SetNetwork(ctx context.Context, n Network) error {
	b, err := json.Marshal(n)
	if err == nil {
		_, err = c.do(ctx, http.MethodPut, "/network", b)
	}
	if err != nil {
		return fmt.Errorf("tell the block daemon of the network: %w", err)
	}
	return nil
}

// EndReads ends the recording of the boot's reads. Asked again it answers the same.
func (c BlockClient) EndReads(ctx context.Context) (Recording, error) {
	var r Recording
	b, err := c.do(ctx, http.MethodPost, "/reads", nil)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return Recording{}, fmt.Errorf("reads of the block daemon: %w", err)
	}
	return r, nil
}

// Booted says that the boot is over: what boots read after that may come now.
func (c BlockClient) Booted(ctx context.Context) error {
	if _, err := c.do(ctx, http.MethodPost, "/booted", nil); err != nil {
		return fmt.Errorf("tell the block daemon that the boot is over: %w", err)
	}
	return nil
}

// Leave takes the node out of its swarm: its peers turn to others before it is gone.
func (c BlockClient) Leave(ctx context.Context) error {
	if _, err := c.do(ctx, http.MethodPost, "/leave", nil); err != nil {
		return fmt.Errorf("leave the swarm: %w", err)
	}
	return nil
}

func (c BlockClient) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
		}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://block"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(b))
	}
	return b, err
}
