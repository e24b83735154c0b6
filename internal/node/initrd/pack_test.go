package initrd

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/link"
	"pando/internal/trace"
)

// packed is a machine with a manifest and an assigned boot pack, and a server that has the pack's map.
type packed struct {
	m    *machine
	got  Verified
	data []byte
	key  minisign.PrivateKey
}

func newPacked(t *testing.T) *packed {
	t.Helper()
	pub, priv, err := minisign.GenerateKey(rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	x := &packed{key: priv, m: testMachine()}
	x.m.timeline.assignment.Store(&fleet.Assignment{Version: image.Version([]byte("a manifest"))})
	x.m.timeline.config.TrustKeys = []string{pub.String()}
	x.data, err = bootpack.Map{
		Version:  x.m.timeline.assignment.Load().Version,
		Sequence: 4,
		Booted:   1,
		Extents:  []bootpack.Extent{{Start: 1, Blocks: 1}},
		Pieces: []chunk.Entry{
			{RawSize: 4096, StoredSize: 1000, Codec: chunk.Zstd, ID: chunk.Sum([]byte("x"))},
		},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/o/"+chunk.Sum(x.data).Name() && !strings.HasSuffix(r.URL.Path, strings.Repeat("0", 64)) {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(x.data)
	}))
	t.Cleanup(s.Close)
	x.m.timeline.assignment.Load().Servers = []string{"http://127.0.0.1:1", s.URL}
	x.assign(x.data)
	return x
}

// assign signs and assigns a map.
func (x *packed) assign(data []byte) {
	x.m.timeline.assignment.Load().Pack = &fleet.PackRef{Object: chunk.Sum(data).String(), Size: int64(len(data)),
		Signature: string(bootpack.Sign(x.key, data))}
}

// use fetches the assigned map, as after a manifest.
func (x *packed) use(t *testing.T) string {
	as := x.m.timeline.assigned()
	x.got.Pack = nil
	x.got.Sources = startSources(t.Context(), http.DefaultClient, as, link.Lease{})
	return x.m.version.usePack(t.Context(), http.DefaultClient, as, &x.got)
}

func TestUsePack(t *testing.T) {
	x := newPacked(t)
	if got := x.use(t); got != ", boot pack 4 of 0.0 MB" ||
		string(x.got.Pack) != string(x.data) {
		t.Errorf("says %q and has %d bytes", got, len(x.got.Pack))
	}
	x.got.Manifest.PackKey, x.m.timeline.config.TrustKeys = x.m.timeline.config.TrustKeys[0], nil
	if x.use(t); x.got.Pack == nil {
		t.Error("the manifest's pack key does not count")
	}
	x.m.timeline.assignment.Load().Pack = nil
	if got := x.use(t); got != "" ||
		x.got.Pack != nil ||
		len(x.m.timeline.report.Take()) != 0 {
		t.Errorf("without a pack assigned: says %q, has %d bytes", got, len(x.got.Pack))
	}
}

// A wrong pack is not used: the timeline says why, and the boot goes on.
func TestUsePackRefuses(t *testing.T) {
	const unknown = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	for name, c := range map[string]struct {
		change func(*packed)
		says   string
	}{
		"missing": {func(x *packed) {
			x.m.timeline.assignment.Load().Pack.Object = chunk.Sum([]byte("other")).String()
		}, "404"},
		"wrong bytes": {func(x *packed) {
			x.m.timeline.assignment.Load().Pack.Object = "sha256:" +
				strings.Repeat("0", 64)
		}, "wrong bytes"},
		"no name":           {func(x *packed) { x.m.timeline.assignment.Load().Pack.Object = "../x" }, "object id"},
		"not signed":        {func(x *packed) { x.m.timeline.assignment.Load().Pack.Signature = "" }, "signature"},
		"key nobody trusts": {func(x *packed) { x.m.timeline.config.TrustKeys = []string{unknown} }, "signature"},
		"not the pack key":  {func(x *packed) { x.got.Manifest.PackKey = unknown }, "signature"},
		"of another version": {func(x *packed) {
			x.m.timeline.assignment.Load().Version = image.Version([]byte("another"))
		}, "version"},
		"larger than allowed": {func(x *packed) { x.data = make([]byte, bootpack.MaxSize+1); x.assign(x.data) },
			"more than"},
	} {
		x := newPacked(t)
		c.change(x)
		if got := x.use(t); got != "" ||
			x.got.Pack != nil {
			t.Errorf("%s: says %q, uses %d bytes", name, got, len(x.got.Pack))
		}
		events := x.m.timeline.report.Take()
		if len(events) != 1 || events[0].Kind != trace.Info || events[0].Stage != trace.Manifest ||
			!strings.Contains(events[0].Message, c.says) {
			t.Errorf("%s: reported %+v, want %q", name, events, c.says)
		}
	}
}
