package lastboot

import (
	"errors"
	"pando/internal/testkit/nodekit"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/cache"
	"pando/internal/fleet"
	"pando/internal/image"
)

const keptKernel = "6.1.0-1-amd64"

// toldBoot returns a boot whose group allows boots without a server, and the config of a medium that trusts it.
func toldBoot(
	t *testing.T,
	version func(*image.Manifest),
	change func(*Boot, *fleet.Assignment),
) (Boot, api.BootConfig) {
	t.Helper()
	p := nodekit.Publish(t, version)
	b := Boot{
		Manifest:          p.Data,
		ManifestSignature: p.Signature,
		Man:               image.Manifest{Kernel: image.Kernel{Release: keptKernel}},
	}
	if version != nil {
		version(&b.Man)
	}
	resp, cfg := nodekit.SignedAssignment(t, func(a *fleet.Assignment) {
		a.Boot, a.Offline, a.Version = "8877665544332211", true, image.Version(p.Data)
		if change != nil {
			change(&b, a)
		}
		b.As = *a
	})
	cfg.TrustKeys, cfg.Medium, cfg.Boot = []string{p.Key}, image.Version(p.Data), ""
	b.Assignment, b.Signature = resp.Assignment, resp.Signature
	return b, cfg
}

// Content of a disk is used only with valid signatures, and only if the assignment itself allows it.
func TestLastBoot(t *testing.T) {
	other := nodekit.Publish(t, func(m *image.Manifest) { m.Root.Size = 2 << 20 })
	for name, try := range map[string]struct {
		change      func(*Boot, *fleet.Assignment)
		recordStore func(recordStore)
		cfg         func(*api.BootConfig)
		kernel      string
		want        string
	}{
		"a good one":      {},
		"not allowed":     {change: func(_ *Boot, a *fleet.Assignment) { a.Offline = false }, want: "does not allow"},
		"nothing":         {recordStore: func(s recordStore) { s[keptRecord] = nil }, want: "no earlier boot is kept"},
		"a strange index": {recordStore: func(s recordStore) { s[keptRecord] = []byte(`{"boots":1}`) }, want: "no earlier boot is kept"},
		"damaged":         {recordStore: func(s recordStore) { s["boot part 1"][9] ^= 1 }, want: "part 1: "},
		"a part is gone":  {recordStore: func(s recordStore) { s["boot part 0"] = nil }, want: "part 0: "},
		"another server's": {cfg: func(c *api.BootConfig) { c.ServerKey = strings.Repeat("A", 43) + "=" },
			want: "wrong signature"},
		"another site's": {cfg: func(c *api.BootConfig) { c.TrustKeys = nil }, want: "sign"},
		"a revoked key": {change: func(b *Boot,
			a *fleet.Assignment) {
			a.RevokedKeys = []string{nodekit.Publish(t, nil).Key}
		}, want: "revoked"},
		"another version's manifest": {change: func(b *Boot, _ *fleet.Assignment) {
			b.Manifest,
				b.ManifestSignature = other.Data, other.Signature
		},
			want: "manifest that is kept has digest"},
		"another kernel": {kernel: "6.12.1", want: "needs 6.1.0-1-amd64"},
	} {
		b, cfg := toldBoot(t, nil, try.change)
		b.As.Offline = true // makes KeepIn keep it: the disk may contain anything
		records := recordStore{}
		if err := b.KeepIn(records); err != nil {
			t.Fatal(err)
		}
		if try.recordStore != nil {
			try.recordStore(records)
		}
		if try.cfg != nil {
			try.cfg(&cfg)
		}
		kernel := keptKernel
		if try.kernel != "" {
			kernel = try.kernel
		}
		got, err := Pick(records, cfg, kernel)
		switch {
		case try.want == "" && (err != nil || got.As.Node != "pc001" || got.Man.Root.Size != 1<<20):
			t.Errorf("%s: %+v, %v", name, got, err)
		case try.want != "" && (err == nil || !strings.Contains(err.Error(), try.want)):
			t.Errorf("%s: %+v, %v; want an error with %q", name, got, err, try.want)
		}
	}
}

// recordStore stores records as a cache does.
type recordStore map[string][]byte

func (s recordStore) Record(name string) ([]byte, error) { return s[name], nil }

func (s recordStore) SetRecord(name string, data []byte) error {
	if _, there := s[name]; len(data) > cache.MaxRecord || !there && len(s) == 16 {
		return errors.New("no room")
	}
	s[name] = append([]byte(nil), data...)
	return nil
}

// keptRun is a node that boots several times.
type keptRun struct {
	*testing.T
	records Records
	cfg     api.BootConfig
}

// boot returns one boot of a version with a kernel. root identifies the version, files is the size of its config
// files.
func (r *keptRun) boot(id fleet.BootID, root int64, kernel string, files int) Boot {
	r.Helper()
	b, cfg := toldBoot(
		r.T,
		func(m *image.Manifest) { m.Root.Size, m.Kernel.Release = root<<20, kernel },
		func(b *Boot, a *fleet.Assignment) {
			a.Boot, a.Files = id, []fleet.File{{Path: "/etc/x", Data: noise(uint64(root), files)}}
		},
	)
	r.cfg = cfg
	return b
}

func (r *keptRun) keep(id fleet.BootID, root int64, kernel string) {
	r.Helper()
	if err := r.boot(id, root, kernel, 1000).KeepIn(r.records); err != nil {
		r.Fatal(err)
	}
}

func (r *keptRun) booted(id fleet.BootID) {
	r.Helper()
	if err := markBooted(r.records, id); err != nil {
		r.Fatal(err)
	}
}

// wants checks which boot the node would repeat without a server, "" for none.
func (r *keptRun) wants(kernel string, id fleet.BootID) {
	r.Helper()
	b, err := Pick(r.records, r.cfg, kernel)
	switch {
	case id == "" && err == nil:
		r.Errorf("kernel %s boots %s", kernel, b.As.Boot)
	case id != "" && (err != nil || b.As.Boot != id || b.Man.Kernel.Release != kernel):
		r.Errorf("kernel %s: %+v, %v; want boot %s", kernel, b, err, id)
	}
}

// A version that never came up does not replace one that did.
func TestLastBootThatCameUp(t *testing.T) {
	r := keptRun{T: t, records: recordStore{}}
	r.wants("6.1", "")
	r.keep("a1", 1, "6.1")
	r.wants("6.1", "a1") // the only one
	r.keep("a2", 1, "6.1")
	r.booted("a1") // no longer kept
	r.wants("6.1", "a2")
	r.booted("a2")
	r.keep("b1", 2, "6.1")
	r.wants("6.1", "a2")
	r.keep("b2", 2, "6.1")
	r.keep("b2", 2, "6.1") // another attempt of the same boot
	r.wants("6.1", "a2")
	r.booted("b2")
	r.wants("6.1", "b2")
	if k, err := readKept(r.records); err != nil || len(k) != 1 {
		t.Errorf("%d boots are kept, %v: none but the one that came up last is wanted again", len(k), err)
	}
	r.keep("a3", 1, "6.1")
	r.booted("a3")
	r.wants("6.1", "a3")
}

// The boot with the previous kernel is kept until the medium has the new kernel. Without the permission all kept
// boots are deleted.
func TestLastBootOfTheKernelAtHand(t *testing.T) {
	records := recordStore{"boot": []byte("x"), "boot before": []byte("x")} // of an older release
	r := keptRun{T: t, records: records}
	r.keep("a1", 1, "6.1")
	r.booted("a1")
	for _, id := range []fleet.BootID{"b1", "b2"} {
		r.keep(id, 2, "6.12")
		r.wants("6.12", id)
		r.wants("6.1", "a1")
	}
	r.keep("c1", 3, "6.18") // b2 never came up
	r.wants("6.18", "c1")
	r.wants("6.1", "a1")
	r.booted("c1")
	r.keep("c2", 3, "6.18")
	r.wants("6.18", "c1")
	r.wants("6.1", "a1")
	r.wants("5.10", "")
	b := r.boot("d1", 4, "6.18", 0)
	b.As.Offline = false
	if err := b.KeepIn(records); err != nil {
		t.Fatal(err)
	}
	for name, data := range records {
		if len(data) > 0 {
			t.Errorf("without permission %s has %d bytes", name, len(data))
		}
	}
}
