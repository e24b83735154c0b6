package storm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/bench"
	"pando/internal/blockapi"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/link"
	"pando/internal/node/blockd"
	"pando/internal/swarm/peer"
)

// pando does what init does from the assignment on, and attaches the root by a real block daemon.
func (n *node) pando(ctx context.Context, step pandoStep) (_ bench.Root, err error) {
	c, err := n.blockConfig(ctx, step)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(n.dir, "block.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.Disk = n.disk
	p := &pandoRoot{began: time.Now()}
	err = n.net.Do(func() (err error) {
		p.Alone, err = blockd.StartAlone(ctx, filepath.Join(n.bin, "pando-init"), n.dir, c, log)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; its log is %s", err, log.Name())
	}
	n.daemon.Store(int64(p.PID()))
	return p, nil
}

// blockConfig fetches what a boot starts with, from peers if they share and the tracker names some.
func (n *node) blockConfig(ctx context.Context, step pandoStep) (c blockapi.Config, err error) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.net.Dial}}
	defer client.CloseIdleConnections()
	sources := startSources{urls: []string{n.server}}
	if step.peers {
		help := peer.Join(
			ctx,
			client,
			[]string{n.server},
			peer.JoinOptions{Pack: n.m.pack.Object, Prefix: n.net.Addr.Bits()},
		)
		c.Swarm = &blockapi.SwarmConfig{AnnounceDelay: help.AnnounceDelay, Control: help.Control, Start: help.Peers}
		sources = startSources{late: help.AnnounceDelay}
		for _, p := range help.Peers {
			sources.urls = append(sources.urls, "http://"+p.String())
		}
		sources.urls = append(sources.urls, n.server)
	}
	man, err := n.manifest(ctx, client, sources, &c)
	if err != nil {
		return c, err
	}
	c.Index, c.Size, c.ChunkSize, c.Servers, c.Idle = man.Root.Index, man.Root.Size, man.Root.ChunkSize, []string{
		n.server,
	}, step.idle
	c.Network = link.Network{
		Addresses: []netip.Prefix{n.net.Addr},
	} // no interface: it is left alone, but its subnet is known
	if !step.pack {
		return c, nil
	}
	if c.Pack, err = getAny(ctx, client, sources, "/o/"+n.m.pack.Object.Name(), n.m.pack.Object.Verify); err != nil {
		return c, err
	}
	_, err = bootpack.Verify(c.Pack, []byte(n.m.pack.Signature), n.m.Version, n.m.Keys.SitePublic())
	return c, err
}

func (n *node) manifest(
	ctx context.Context,
	client *http.Client,
	sources startSources,
	c *blockapi.Config,
) (m image.Manifest, err error) {
	path := "/m/" + strings.TrimPrefix(string(n.m.Version), "sha256:")
	data, err := getAny(ctx, client, sources, path, func(data []byte) error {
		if got := image.Version(data); got != n.m.Version {
			return fmt.Errorf("manifest has digest %s, want %s", got, n.m.Version)
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	signature, err := getAny(ctx, client, sources, path+".minisig", func(signature []byte) (err error) {
		m, err = image.Verify(data, signature, n.m.Keys.SitePublic())
		return err
	})
	if c.Swarm != nil {
		c.Manifest, c.Signature = data, signature
	}
	return m, err
}

// startPatience is how long a peer may take, as in a node: unless the tracker says that word is late.
const startPatience = 2 * time.Second

// startSources are who has what a boot starts with, base URLs, the server last.
type startSources struct {
	urls []string
	late time.Duration
}

// startAgain is how long a node waits before it asks servers again that did not answer: on links this slow the
// kernel gives up connections that on faster ones last.
const startAgain = time.Second

// getAny fetches a small file from the first source that has it. The last is the server, which is asked again as
// nodes do, for as long as a boot may take.
func getAny(
	ctx context.Context,
	client *http.Client,
	sources startSources,
	path string,
	good func([]byte) error,
) ([]byte, error) {
	peers, server := sources.urls[:len(sources.urls)-1], sources.urls[len(sources.urls)-1]
	for _, p := range peers {
		if data, err := getGood(ctx, client, p+path, max(startPatience, sources.late), good); err == nil {
			return data, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	for {
		data, err := getGood(ctx, client, server+path, recordTimeout, good)
		if err == nil || errors.Is(err, bench.ErrAnswer) {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(startAgain):
		}
	}
}

// getGood fetches a small file that is as it should be.
func getGood(
	ctx context.Context,
	client *http.Client,
	url string,
	patience time.Duration,
	good func([]byte) error,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	data, err := bench.Get(ctx, client, url, bench.MostSmall)
	if err == nil {
		if err = good(data); err != nil {
			err = fmt.Errorf("GET %s: %w: %w", url, bench.ErrAnswer, err)
		}
	}
	return data, err
}
