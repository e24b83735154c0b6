package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/node/blockd"
	"pando/internal/store"
	"pando/internal/testkit"
)

// The size of the root and of a piece of its boot pack, in blocks.
const (
	rootBlocks  = 600
	pieceBlocks = 6
)

// rate is the rate of every link. A boot set takes a second.
const rate = 20 * testkit.Mbit

var subnet = netip.MustParsePrefix("10.81.0.1/24")

// fleet is a server and nodes on a switch.
type fleet struct {
	t      *testing.T
	star   *testkit.Star
	site   *testkit.Site
	bin    string
	dir    string
	raw    []byte
	config blockapi.Config

	above    string               // directory of the nodes' daemons, below dir; "": dir itself
	elsewise blockapi.SwarmConfig // swarm settings; zero: those of a root's daemon
}

// newFleet makes a fleet with a number of nodes, all switched off.
func newFleet(t *testing.T, nodes int) *fleet { return newFleetOf(t, nodes, rate) }

// newFleetOf is newFleet with another rate for the server's link.
func newFleetOf(t *testing.T, nodes int, server testkit.Rate) *fleet {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	bin, err := filepath.Abs("../../build/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"pando", "pando-init"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Skipf("%v (make build makes it)", err)
		}
	}
	dir, err := os.MkdirTemp("", "swarm") // short: there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fleet{t: t, bin: bin, dir: dir}
	f.fill(filepath.Join(dir, "data"))
	f.star, err = testkit.NewStar(t.Context(), testkit.StarConfig{Prefix: "swarm", Server: subnet, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.check(f.star.Close()) })
	f.check(f.star.Limit(server, rate))
	f.site, err = testkit.StartSite(
		t.Context(),
		testkit.SiteConfig{Net: f.star.Server, Bin: bin, Data: filepath.Join(dir, "data"),
			Log: filepath.Join(
				dir,
				"server.log",
			), DHCP: "off", Args: []string{"--uplink", server.String(), "--tftp", "off"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.check(f.site.Close()) })
	f.config.Servers = []string{"http://" + subnet.Addr().String() + ":8480"}
	return f
}

func (f *fleet) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Error(err)
	}
}

// fill puts a root and its boot pack into the store.
func (f *fleet) fill(data string) {
	f.t.Helper()
	f.fillAs(data, 9)
}

// fillAs puts one of several roots and its boot pack into the store.
func (f *fleet) fillAs(data string, seed byte) {
	f.t.Helper()
	f.raw = make([]byte, rootBlocks*chunk.BlockSize)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(f.raw) // never fails
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		f.t.Fatal(err)
	}
	unlock, err := dir.Lock(f.t.Context(), "test")
	if err != nil {
		f.t.Fatal(err)
	}
	defer unlock()
	w := dir.NewWriter()
	defer w.Close()
	put := func(b []byte) chunk.ID {
		id, _, err := w.Put(f.t.Context(), b)
		if err != nil {
			f.t.Fatal(err)
		}
		return id
	}
	cut := func(size int) (out []chunk.Entry) {
		for off := 0; off < len(f.raw); off += size {
			b := f.raw[off:min(off+size, len(f.raw))]
			out = append(out, chunk.Entry{RawSize: len(b), StoredSize: len(b), Codec: chunk.Stored, ID: put(b)})
		}
		return out
	}
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		f.t.Fatal(err)
	}
	index, err := chunk.NewIndex(cut(chunk.DefaultChunkSize), chunk.DefaultChunkSize, enc)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, page := range index.Pages {
		put(page)
	}
	p := bootpack.Map{Version: image.Version([]byte{seed}), Sequence: 1, Pieces: cut(pieceBlocks * chunk.BlockSize),
		Extents: []bootpack.Extent{{Start: 0, Blocks: rootBlocks}}}
	p.Booted = len(p.Pieces)
	f.config = blockapi.Config{
		Index:     put(index.Root),
		Size:      int64(len(f.raw)),
		ChunkSize: chunk.DefaultChunkSize,
		Servers:   f.config.Servers,
	}
	if f.config.Pack, err = p.Encode(); err != nil {
		f.t.Fatal(err)
	}
	put(f.config.Pack)
	if err := w.Sync(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// node is a machine that was switched on.
type node struct {
	*blockd.Alone
	f    *fleet
	name string
}

// start switches node i on. change modifies its configuration.
func (f *fleet) start(i int, change ...func(*blockapi.Config)) (*node, error) {
	c := f.config
	c.Swarm = &f.elsewise
	for _, do := range change {
		do(&c)
	}
	n := &node{f: f, name: "node " + strconv.Itoa(i)}
	dir := filepath.Join(f.dir, f.above, strconv.Itoa(i))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	err = f.star.Nodes[i].Do(func() (err error) {
		n.Alone, err = blockd.StartAlone(ctx, filepath.Join(f.bin, "pando-init"), dir, c, log)
		return err
	})
	return n, err
}

// boot reads the root in parts, as a boot does, and compares every byte.
func (n *node) boot() error {
	got := make([]byte, 16*chunk.BlockSize)
	for off := 0; off < len(n.f.raw); off += len(got) {
		part := got[:min(len(got), len(n.f.raw)-off)]
		if _, err := n.Device.ReadAt(part, int64(off)); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		if !bytes.Equal(part, n.f.raw[off:][:len(part)]) {
			return fmt.Errorf("%s: wrong bytes at %d", n.name, off)
		}
	}
	st, err := n.Client.Status(n.f.t.Context(), 0)
	if err == nil && st.Errors > 0 {
		err = errors.New("it answered reads with errors")
	}
	return err
}

// status waits until good accepts a daemon's status, and returns it.
func (n *node) status(good func(blockapi.Status) bool) blockapi.Status {
	n.f.t.Helper()
	ctx, cancel := context.WithTimeout(n.f.t.Context(), time.Minute)
	defer cancel()
	for {
		st, err := n.Client.Status(ctx, 0)
		if err != nil {
			n.f.t.Fatalf("%s: %v; the last it said: %+v", n.name, err, st)
		}
		if good(st) {
			return st
		}
		time.Sleep(50 * time.Millisecond) // saves processor time; the context ends the loop
	}
}

// now returns a daemon's present status.
func (n *node) now() blockapi.Status {
	n.f.t.Helper()
	return n.status(func(blockapi.Status) bool { return true })
}

// told reports whether a daemon has had an incident of a kind that names source; "": any source.
func told(st blockapi.Status, kind blockapi.IncidentKind, source string) bool {
	for _, i := range st.Incidents {
		if i.Kind == kind && (source == "" || netip.MustParseAddrPort(i.Source).Addr().String() == source) {
			return true
		}
	}
	return false
}

// w returns W, the bytes of the boot pack.
func (f *fleet) w() int64 { return int64(len(f.raw)) }
