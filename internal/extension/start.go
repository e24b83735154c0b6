package extension

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"pando/internal/blockapi"
	"pando/internal/bootfiles"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/image"
	"pando/internal/link"
	"pando/internal/swarm"
)

// For each extension a node keeps compressed pieces of its boot pack for peers: 1/extensionPart of its memory, at
// least extensionLeast bytes. Eight extensions lock at most an eighth of a large memory this way.
const (
	extensionPart  = 64
	extensionLeast = 8 << 20
)

func extensionKeep(memory int64) int64 {
	return min(max(memory/extensionPart, extensionLeast), blockapi.MostKeep)
}

// extensionPort returns the port on which an extension's daemon serves peers. Each device has its own fixed port
// after the root's, so that firewalls can allow them.
func extensionPort(device int) uint16 {
	return uint16(swarm.Port + 1 + device - blockapi.FirstExtension)
}

// extensionStart has the verified bootstrap files of an extension. The node sends them to peers that attach it later.
type extensionStart struct {
	manifest        image.Manifest
	data, signature []byte             // of the manifest
	pack            []byte             // map of its boot pack; none: its content comes from servers as chunks
	sources         []bootfiles.Source // the source that had the files first, then the remaining ones
}

// start fetches and verifies the bootstrap files of an extension, and checks that it fits the running version.
func (s Source) start(ctx context.Context, e fleet.Extension) (x extensionStart, err error) {
	client := bootfiles.NewClient()
	defer client.CloseIdleConnections()
	ref, packed := s.As.ExtensionPacks[e.Version]
	var asked *fleet.PackRef
	if packed {
		asked = &ref
	}
	sources := bootfiles.Sources(ctx, client, s.As, asked, s.Network.PrefixLength())
	var errs []error
	for i, source := range sources {
		x, err = s.startFrom(ctx, client, source, e.Version)
		x.sources = sources[i:]
		if err != nil && source.Peer {
			s.peerFailed(e, source, err)
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source.URL, err))
			continue
		}
		if err = fitsHere(x.manifest, e, s.Running); err == nil && packed {
			x.pack = s.pack(ctx, client, sources[i:], e, ref)
		}
		return x, err
	}
	return x, fmt.Errorf("extension %s: %w", e.Name, errors.Join(errs...))
}

func (s Source) startFrom(
	ctx context.Context,
	client *http.Client,
	source bootfiles.Source,
	version fleet.Digest,
) (x extensionStart, err error) {
	ctx, cancel := source.Bound(ctx)
	defer cancel()
	x.manifest, x.data, x.signature, err = bootfiles.SignedManifest(ctx, client, source.URL, version, s.Trust)
	return x, err
}

// pack fetches the map of an extension's boot pack. Without it the extension receives more bytes, all of them from
// servers.
func (s Source) pack(
	ctx context.Context,
	client *http.Client,
	sources []bootfiles.Source,
	e fleet.Extension,
	ref fleet.PackRef,
) []byte {
	f := bootfiles.Pack{
		Ref:     ref,
		Version: e.Version,
		Keys:    s.Trust.Accepted(),
		Failed:  func(from bootfiles.Source, err error) { s.peerFailed(e, from, err) },
	}
	_, data, err := f.From(ctx, client, sources)
	if err != nil {
		s.Tell("extension "+e.Name+" without its boot pack: "+err.Error(), "it comes from servers, in chunks")
		return nil
	}
	return data
}

func (s Source) peerFailed(e fleet.Extension, from bootfiles.Source, err error) {
	bootfiles.ReportCorrupt(s.As.Servers, from, err)
	s.Tell("extension "+e.Name+": peer "+from.URL+": "+err.Error(), "another source is used")
}

// config returns the configuration of an extension's block daemon.
func (s Source) config(x extensionStart, device int) blockapi.Config {
	r := x.manifest.Root
	subnet := link.Network{Addresses: s.Network.Addresses} // no interface: the root's daemon maintains it
	c := blockapi.Config{
		Index:     r.Index,
		Size:      r.Size,
		ChunkSize: r.ChunkSize,
		Servers:   s.As.Servers,
		Stores:    s.As.Stores,
		Device:    device,
		Pack:      x.pack,
		Idle:      s.Idle,
		Keep:      extensionKeep(hardware.Memory()),
		Network:   subnet,
	}
	if s.As.Swarm != nil && x.pack != nil {
		c.Swarm = bootfiles.SwarmConfig(s.As.Swarm, x.sources)
		c.Swarm.Port = extensionPort(device)
		c.Manifest, c.Signature = x.data, x.signature
	}
	return c
}
