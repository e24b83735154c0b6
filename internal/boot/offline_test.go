package boot

import (
	"encoding/json"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
)

// kept is the record of a boot whose group allows to boot without a server, and the config of a medium that trusts it.
func kept(t *testing.T, change func(*lastBoot, *fleet.Assignment)) ([]byte, api.BootConfig) {
	t.Helper()
	p := publish(t, nil)
	b := lastBoot{Manifest: p.data, ManifestSignature: p.signature}
	resp, cfg := signedAssignment(t, func(a *fleet.Assignment) {
		a.Boot, a.Offline, a.Version = "8877665544332211", true, image.Version(p.data)
		if change != nil {
			change(&b, a)
		}
	})
	cfg.TrustKeys, cfg.Medium, cfg.Boot = []string{p.key}, image.Version(p.data), ""
	b.Assignment, b.Signature = resp.Assignment, resp.Signature
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return data, cfg
}

const keptKernel = "6.1.0-1-amd64"

// What lies on a disk is believed by its signatures, and only where the assignment itself allows it.
func TestLastBoot(t *testing.T) {
	record, cfg := kept(t, nil)
	b, err := readLastBoot(record, cfg, keptKernel)
	if err != nil || b.assignment.Node != "pc001" || b.manifest.Root.Size != 1<<20 {
		t.Fatalf("a good record: %+v, %v", b, err)
	}
	other := publish(t, func(m *image.Manifest) { m.Root.Size = 2 << 20 })
	for name, try := range map[string]struct {
		change func(*lastBoot, *fleet.Assignment)
		record func([]byte) []byte
		cfg    func(*api.BootConfig)
		kernel string
		want   string
	}{
		"not allowed":      {change: func(_ *lastBoot, a *fleet.Assignment) { a.Offline = false }, want: "does not allow"},
		"withdrawn":        {record: func([]byte) []byte { return []byte("{}") }, want: "does not allow"},
		"nothing":          {record: func([]byte) []byte { return nil }, want: "nothing is kept"},
		"damaged":          {record: func(b []byte) []byte { return b[:len(b)/2] }, want: "last boot"},
		"another server's": {cfg: func(c *api.BootConfig) { c.ServerKey = strings.Repeat("A", 43) + "=" }, want: "wrong signature"},
		"another site's":   {cfg: func(c *api.BootConfig) { c.TrustKeys = nil }, want: "sign"},
		"a revoked key":    {change: func(b *lastBoot, a *fleet.Assignment) { a.RevokedKeys = []string{publish(t, nil).key} }, want: "revoked"},
		"another version's manifest": {change: func(b *lastBoot, _ *fleet.Assignment) { b.Manifest, b.ManifestSignature = other.data, other.signature },
			want: "manifest that is kept has digest"},
		"another kernel": {kernel: "6.12.1", want: "needs 6.1.0-1-amd64"},
	} {
		record, cfg := kept(t, try.change)
		if try.record != nil {
			record = try.record(record)
		}
		if try.cfg != nil {
			try.cfg(&cfg)
		}
		kernel := keptKernel
		if try.kernel != "" {
			kernel = try.kernel
		}
		if b, err := readLastBoot(record, cfg, kernel); err == nil || !strings.Contains(err.Error(), try.want) {
			t.Errorf("%s: %+v, %v; want an error with %q", name, b, err, try.want)
		}
	}
}

// shelf holds records as a cache does.
type shelf map[string][]byte

func (s shelf) Record(name string) ([]byte, error) { return s[name], nil }

func (s shelf) SetRecord(name string, data []byte) error {
	s[name] = data
	return nil
}

// The boot before the last one is kept until the medium has the new kernel; all is taken back with the permission.
func TestLastBootOfTheKernelAtHand(t *testing.T) {
	records := shelf{}
	boot := func(kernel string, allowed bool) api.BootConfig {
		p := publish(t, func(m *image.Manifest) { m.Kernel.Release = kernel })
		resp, cfg := signedAssignment(t, func(a *fleet.Assignment) { a.Offline, a.Version = allowed, image.Version(p.data) })
		m := &machine{answer: resp, manifestBytes: p.data, manifestSignature: p.signature}
		a, err := verifyAssignment(resp.Assignment, resp.Signature, cfg.ServerKey)
		if err != nil {
			t.Fatal(err)
		}
		m.assignment.Store(&a)
		m.manifest.Kernel.Release = kernel
		if err := m.thisBoot().keepIn(records); err != nil {
			t.Fatal(err)
		}
		cfg.TrustKeys = []string{p.key}
		return cfg
	}
	cfg := boot("6.1", true)
	boot("6.12", true)
	boot("6.12", true)
	for _, kernel := range []string{"6.12", "6.1"} {
		if b, err := pickLastBoot(records, cfg, kernel); err != nil || b.manifest.Kernel.Release != kernel {
			t.Errorf("kernel %s: %+v, %v", kernel, b, err)
		}
	}
	if b, err := pickLastBoot(records, cfg, "5.10"); err == nil {
		t.Errorf("kernel 5.10 boots %+v", b)
	}
	boot("6.12", false)
	for _, kernel := range []string{"6.12", "6.1"} {
		if b, err := pickLastBoot(records, cfg, kernel); err == nil {
			t.Errorf("without permission kernel %s boots %+v", kernel, b)
		}
	}
}
