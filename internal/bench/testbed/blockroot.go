package testbed

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
	"pando/internal/testkit"
)

// Node is a machine whose root a block daemon serves.
type Node struct {
	Net      *testkit.Net
	Dir      string // the node's own directory
	Bin      string // directory of the programs
	Server   string // base URL of the image port
	Material *Material
	Disk     *blockapi.CacheDisk  // nil: none
	Kernel   *blockapi.KernelFile // kernel and initramfs that it serves to others; nil: none
}

// Step says what a node uses: a boot pack, fetching it ahead of reads (Idle), and peers.
type Step struct{ Pack, Idle, Peers bool }

// Attach does what init does after it has the assignment: it attaches the root with a real block daemon.
func (n *Node) Attach(ctx context.Context, step Step) (*BlockRoot, error) {
	c, err := n.blockConfig(ctx, step)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(n.Dir, "block.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.Disk, c.Kernel = n.Disk, n.Kernel
	p := &BlockRoot{began: time.Now()}
	err = n.Net.Do(func() (err error) {
		p.Alone, err = blockd.StartAlone(ctx, filepath.Join(n.Bin, "pando-init"), n.Dir, c, log)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; its log is %s", err, log.Name())
	}
	return p, nil
}

// blockConfig fetches the bootstrap files of a boot, with Peers from peers that the tracker names.
func (n *Node) blockConfig(ctx context.Context, step Step) (c blockapi.Config, err error) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.Net.Dial}}
	defer client.CloseIdleConnections()
	sources := startSources{urls: []string{n.Server}}
	if step.Peers {
		help := peer.Join(
			ctx,
			client,
			[]string{n.Server},
			peer.JoinOptions{Pack: n.Material.Pack.Object, Prefix: n.Net.Addr.Bits()},
		)
		c.Swarm = &blockapi.SwarmConfig{AnnounceDelay: help.AnnounceDelay, Control: help.Control, Start: help.Peers}
		sources = startSources{late: help.AnnounceDelay}
		for _, p := range help.Peers {
			sources.urls = append(sources.urls, "http://"+p.String())
		}
		sources.urls = append(sources.urls, n.Server)
	}
	man, err := n.manifest(ctx, client, sources, &c)
	if err != nil {
		return c, err
	}
	c.Index, c.Size, c.ChunkSize, c.Servers, c.Idle = man.Root.Index, man.Root.Size, man.Root.ChunkSize, []string{
		n.Server,
	}, step.Idle
	c.Network = link.Network{
		Addresses: []netip.Prefix{n.Net.Addr},
	} // without an interface name the daemon configures none, but knows the subnet
	if !step.Pack {
		return c, nil
	}
	m := n.Material
	if c.Pack, err = getAny(ctx, client, sources, "/o/"+m.Pack.Object.Name(), m.Pack.Object.Verify); err != nil {
		return c, err
	}
	_, err = bootpack.Verify(c.Pack, []byte(m.Pack.Signature), m.Version, m.Keys.SitePublic())
	return c, err
}

func (n *Node) manifest(
	ctx context.Context,
	client *http.Client,
	sources startSources,
	c *blockapi.Config,
) (m image.Manifest, err error) {
	path := "/m/" + strings.TrimPrefix(string(n.Material.Version), "sha256:")
	data, err := getAny(ctx, client, sources, path, func(data []byte) error {
		if got := image.Version(data); got != n.Material.Version {
			return fmt.Errorf("manifest has digest %s, want %s", got, n.Material.Version)
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	signature, err := getAny(ctx, client, sources, path+".minisig", func(signature []byte) (err error) {
		m, err = image.Verify(data, signature, n.Material.Keys.SitePublic())
		return err
	})
	if c.Swarm != nil {
		c.Manifest, c.Signature = data, signature
	}
	return m, err
}

// startPatience is how long a peer may take for a bootstrap file, as in a node. A longer announce delay extends it.
const startPatience = 2 * time.Second

// startSources are the base URLs from which bootstrap files can be fetched, the server last.
type startSources struct {
	urls []string
	late time.Duration
}

// AskAgain is the pause before a node repeats a request that no server answered. On links this slow, the kernel gives
// up connections that would last on faster ones.
const AskAgain = time.Second

// getAny fetches a small file from the first source that has it. The last source is the server; it is tried again, as
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
	ctx, cancel := context.WithTimeout(ctx, RecordTimeout)
	defer cancel()
	for {
		data, err := getGood(ctx, client, server+path, RecordTimeout, good)
		if err == nil || errors.Is(err, bench.ErrAnswer) {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(AskAgain):
		}
	}
}

// getGood fetches a small file and checks it.
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
