package boot

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/swarm"
)

// What of a boot pack's pieces a node keeps for its peers, of each extension: this part of its memory, which is
// about what it reads ahead of an extension, as it is sent. Eight extensions have an eighth of the memory so, and
// all of it is locked.
const (
	extensionPart  = 64
	extensionLeast = 8 << 20
)

func extensionKeep(memory int64) int64 {
	return min(max(memory/extensionPart, extensionLeast), mostKeep)
}

// extensionPort is where peers ask the daemon of an extension: after the root's port, each at its own, so that a
// firewall can know them.
func extensionPort(device int) uint16 { return uint16(swarm.Port + 1 + device - firstExtension) }

// extensionStart is what a node knows of an extension before it has a device. Peers that attach it later get it
// from this node.
type extensionStart struct {
	manifest        image.Manifest
	data, signature []byte        // of the manifest
	pack            []byte        // map of its boot pack; none: its blocks come as chunks, from servers
	sources         []startSource // who had it, first, and who else is said to
}

// start gets and verifies what an extension is. It must have been made on what runs.
func (s extensionSource) start(ctx context.Context, e fleet.Extension) (x extensionStart, err error) {
	client := startClient()
	defer client.CloseIdleConnections()
	ref, packed := s.as.ExtensionPacks[e.Version]
	var asked *fleet.PackRef
	if packed {
		asked = &ref
	}
	sources := startSources(ctx, client, s.as, asked, s.network.prefixLength())
	var errs []error
	for i, source := range sources {
		x, err = s.startFrom(ctx, client, source, e.Version)
		x.sources = sources[i:]
		if err != nil && source.peer {
			s.peerFailed(e, source, err)
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source.url, err))
			continue
		}
		if err = fitsHere(x.manifest, e, s.running); err == nil && packed {
			x.pack = s.pack(ctx, client, sources[i:], e, ref)
		}
		return x, err
	}
	return x, fmt.Errorf("extension %s: %w", e.Name, errors.Join(errs...))
}

func (s extensionSource) startFrom(
	ctx context.Context,
	client *http.Client,
	source startSource,
	version fleet.Digest,
) (x extensionStart, err error) {
	ctx, cancel := source.bound(ctx)
	defer cancel()
	x.manifest, x.data, x.signature, err = signedManifest(ctx, client, source.url, version, s.trust)
	return x, err
}

// pack gets the map of an extension's boot pack. Without it the extension takes more bytes, and all of them from
// servers.
func (s extensionSource) pack(
	ctx context.Context,
	client *http.Client,
	sources []startSource,
	e fleet.Extension,
	ref fleet.PackRef,
) []byte {
	f := packFetch{
		ref:     ref,
		version: e.Version,
		keys:    s.trust.Accepted(),
		failed:  func(from startSource, err error) { s.peerFailed(e, from, err) },
	}
	_, data, err := f.from(ctx, client, sources)
	if err != nil {
		s.tell("extension "+e.Name+" without its boot pack: "+err.Error(), "it comes from servers, in chunks")
		return nil
	}
	return data
}

func (s extensionSource) peerFailed(e fleet.Extension, from startSource, err error) {
	accuse(s.as.Servers, from, err)
	s.tell("extension "+e.Name+": peer "+from.url+": "+err.Error(), "another source is asked")
}

// config is that of an extension's block daemon.
func (s extensionSource) config(x extensionStart, device int) BlockConfig {
	r := x.manifest.Root
	subnet := Network{Addresses: s.network.Addresses} // to keep it up is the matter of the root's daemon
	c := BlockConfig{
		Index:     r.Index,
		Size:      r.Size,
		ChunkSize: r.ChunkSize,
		Servers:   s.as.Servers,
		Stores:    s.as.Stores,
		Device:    device,
		Pack:      x.pack,
		Idle:      s.idle,
		Keep:      extensionKeep(machineMemory()),
		Network:   subnet,
	}
	if s.as.Swarm != nil && x.pack != nil {
		c.Swarm = swarmConfig(s.as.Swarm, x.sources)
		c.Swarm.Port = extensionPort(device)
		c.Manifest, c.Signature = x.data, x.signature
	}
	return c
}
