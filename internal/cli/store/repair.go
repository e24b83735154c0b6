package store

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/store"
	"pando/internal/store/s3"
	"pando/internal/swarm"
)

// seconds opens the repair sources that --from names: a data directory, a store, a server, a bucket, or nodes.
func seconds(env *cmdenv.Env, ctx context.Context, from string) ([]store.RepairSource, error) {
	if set, ok := strings.CutPrefix(from, "node:"); ok {
		return nodeSeconds(env, ctx, set)
	}
	s, err := second(ctx, from)
	return []store.RepairSource{s}, err
}

// second opens a repair source that is not a set of nodes.
func second(ctx context.Context, from string) (store.RepairSource, error) {
	if strings.HasPrefix(from, "s3://") {
		b, err := s3.Open(ctx, s3.Config{URL: from}.FromEnvironment())
		if err != nil {
			return nil, err
		}
		return store.RemoteSource{In: b}, nil
	}
	if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
		return &store.HTTP{URL: from, Client: &http.Client{Timeout: 5 * time.Minute}}, nil
	}
	for _, path := range []string{from, filepath.Join(from, "store")} {
		if _, err := os.Stat(filepath.Join(path, "objects")); err == nil {
			d, err := store.OpenDir(path)
			return store.DirSource{Dir: d}, err
		}
	}
	return nil, exitcode.Usagef(
		"--from %q: neither a store (a directory with objects in it) nor http://SERVER nor s3://BUCKET/PREFIX nor "+
			"node:SET",
		from,
	)
}

// nodeSeconds returns the running nodes of a node set as repair sources.
func nodeSeconds(env *cmdenv.Env, ctx context.Context, set string) ([]store.RepairSource, error) {
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	targets, err := c.ScrapeTargets(ctx, set, swarm.Port)
	if err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, api.NewError(
			api.NotFound,
			"--from node:"+set+": none of these nodes is up",
			"`pando node list` shows which are; or fix from another store",
		)
	}
	client := store.NewClient(1, nil)
	var out []store.RepairSource
	for _, t := range targets {
		out = append(
			out,
			&nodeSecond{HTTP: store.HTTP{URL: "http://" + t.Targets[0], Client: client}, node: t.Labels["node"]},
		)
	}
	return out, nil
}

// nodeSecond is a running node as a repair source: it serves objects from its memory.
type nodeSecond struct {
	store.HTTP
	node string
	lost bool // no answer, or it shares nothing: not tried again, since each try may take a time-out
}

// busyWait is the pause before a retry at a node whose upload slots are all in use.
const busyWait = 200 * time.Millisecond

// Name returns the node's name for messages.
func (n *nodeSecond) Name() string { return "node " + n.node }

// Get fetches an object from the node, and retries while the node is busy.
func (n *nodeSecond) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	for try := 0; !n.lost; try++ {
		v, err := n.HTTP.Get(ctx, r)
		var wrong *chunk.WrongBytesError
		switch {
		case err == nil, errors.Is(err, store.ErrMissing), errors.As(err, &wrong):
			return v, err
		case errors.Is(err, store.ErrBusy) && try < 10:
			select {
			case <-time.After(busyWait):
			case <-ctx.Done():
				return v, ctx.Err()
			}
		default:
			n.lost = true
		}
	}
	return chunk.Verified{}, store.ErrMissing
}

// Version always returns an error: a node does not serve manifests here.
func (n *nodeSecond) Version(context.Context, fleet.Digest) (store.Version, error) {
	return store.Version{}, store.ErrMissing
}
