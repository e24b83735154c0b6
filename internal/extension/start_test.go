package extension

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/link"
	"pando/internal/swarm"
	"pando/internal/testkit/nodekit"
)

// extensionAssigned returns an extension that a server has, with this assigned boot pack, and a node that is to
// attach it. The node's messages go to told.
func extensionAssigned(t *testing.T, ref fleet.PackRef) (s Source, e fleet.Extension, told *[]string) {
	t.Helper()
	base := fleet.Digest(chunk.Sum([]byte("base")).String())
	p := nodekit.Publish(t, func(m *image.Manifest) {
		m.Kernel, m.Drivers, m.CommandLine, m.PackKey, m.Architecture = image.Kernel{}, nil, nil, "", runtime.GOARCH
		m.Extends = &image.Extends{Name: "tools", Base: base}
	})
	e, told = fleet.Extension{Name: "tools", Version: image.Version(p.Data)}, &[]string{}
	as := fleet.Assignment{
		Servers:        []string{p.Serve(t)},
		Swarm:          &fleet.Swarm{Place: "r1", LocalOnly: true},
		ExtensionPacks: map[fleet.Digest]fleet.PackRef{e.Version: ref},
	}
	return Source{
		As:      as,
		Trust:   image.Trust{Keys: []string{p.Key}},
		Running: base,
		Network: link.Network{Interface: 3,
			Addresses: []netip.Prefix{
				netip.MustParsePrefix("10.0.0.7/22"),
			}},
		Tell: func(message, _ string) { *told = append(*told, message) },
	}, e, told
}

// An extension is attached without its boot pack if the pack is unavailable or its signature is wrong. It shares
// nothing then.
func TestExtensionWithoutItsPack(t *testing.T) {
	theirs, server := unknownPack(t)
	for name, ref := range map[string]fleet.PackRef{
		"gone":               {Object: chunk.Sum([]byte("gone")).String()},
		"no name":            {Object: "../x"},
		"of another version": theirs,
	} {
		s, e, told := extensionAssigned(t, ref)
		s.As.Servers = append(s.As.Servers, server)
		begin, err := s.start(t.Context(), e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if begin.pack != nil || len(*told) != 1 || !strings.Contains((*told)[0], "without its boot pack") {
			t.Errorf("%s: a map of %d bytes, said %q", name, len(begin.pack), *told)
		}
		if c := s.config(begin, blockapi.FirstExtension); c.Swarm != nil || c.Pack != nil || c.Validate() != nil {
			t.Errorf("%s: config %+v, %v", name, c, c.Validate())
		}
	}
	s, e, told := extensionAssigned(t, fleet.PackRef{})
	s.As.ExtensionPacks = nil
	if begin, err := s.start(t.Context(), e); err != nil || begin.pack != nil || len(*told) != 0 {
		t.Errorf("none assigned: %v, said %q", err, *told)
	}
}

// The daemon of an extension shares as the group's settings say, on its own port, and keeps a bounded part of the
// memory.
func TestExtensionShares(t *testing.T) {
	s, _, _ := extensionAssigned(t, fleet.PackRef{})
	begin := extensionStart{
		manifest:  image.Manifest{Root: image.Root{Index: chunk.Sum([]byte("i")), Size: 4096, ChunkSize: 65536}},
		data:      []byte("m"),
		signature: []byte("s"),
		pack:      []byte("map"),
	}
	c := s.config(begin, blockapi.FirstExtension+2)
	if c.Swarm == nil ||
		!reflect.DeepEqual(*c.Swarm, blockapi.SwarmConfig{Port: swarm.Port + 3, Place: "r1", LocalOnly: true}) ||
		!bytes.Equal(c.Manifest, begin.data) ||
		!bytes.Equal(c.Signature, begin.signature) {
		t.Errorf("shares as %+v", c)
	}
	if c.Network.Interface != 0 || c.Network.PrefixLength() != 22 {
		t.Errorf(
			"its network is %+v: the root's daemon keeps that up, and its peers are those of the subnet",
			c.Network,
		)
	}
	s.As.Swarm = nil // the setting peers is off
	if c := s.config(begin, blockapi.FirstExtension); c.Swarm != nil || c.Manifest != nil || c.Pack == nil {
		t.Errorf("without peers it has %+v", c)
	}
	for memory, want := range map[int64]int64{0: 8 << 20, 256 << 20: 8 << 20, 2 << 30: 32 << 20, 1 << 40: 256 << 20} {
		if got := extensionKeep(memory); got != want {
			t.Errorf("with %d MB it keeps %d, want %d", memory>>20, got, want)
		}
	}
	if got := blockapi.KeepOf(1<<30, 2<<30, extensionKeep(2<<30)); got != 32<<20 {
		t.Errorf("of a large pack it keeps %d", got)
	}
}

// unknownPack returns a boot pack's map that an untrusted key signed for another version, and a server that has it.
func unknownPack(t *testing.T) (fleet.PackRef, string) {
	t.Helper()
	_, key, err := minisign.GenerateKey(rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	data, err := bootpack.Map{
		Version:  image.Version([]byte("a manifest")),
		Sequence: 4,
		Booted:   1,
		Extents:  []bootpack.Extent{{Start: 1, Blocks: 1}},
		Pieces:   []chunk.Entry{{RawSize: 4096, StoredSize: 1000, Codec: chunk.Zstd, ID: chunk.Sum([]byte("x"))}},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(data) }))
	t.Cleanup(s.Close)
	return fleet.PackRef{Object: chunk.Sum(data).String(), Signature: string(bootpack.Sign(key, data))}, s.URL
}
