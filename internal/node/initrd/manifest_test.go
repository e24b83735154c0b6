package initrd

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/testkit/nodekit"
)

func machineFor(p nodekit.Published, servers ...string) *machine {
	m := testMachine()
	m.timeline.assignment.Store(&fleet.Assignment{Version: image.Version(p.Data), Servers: servers})
	m.timeline.config.TrustKeys = []string{p.Key}
	return m
}

func fetch(t *testing.T, m *machine) (*Verified, string, error) {
	return m.version.fetchManifest(t.Context(), sessionOf(m), link.Lease{})
}

func TestFetchManifestFailsOver(t *testing.T) {
	good := nodekit.Publish(t, nil)
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	m := machineFor(good, "http://127.0.0.1:1", empty.URL, good.Serve(t)+"/")
	got, message, err := fetch(t, m)
	if err != nil || got.Manifest.Root.Size != 1<<20 {
		t.Fatalf("%q, %v", message, err)
	}
}

// The hint does not say that a server lost the version if its port is closed, whatever another source answers.
func TestWhoHasLostTheVersion(t *testing.T) {
	good := nodekit.Publish(t, nil)
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	for _, c := range []struct {
		servers []string
		lost    bool
	}{
		{[]string{empty.URL}, true},
		{[]string{empty.URL, empty.URL}, true},
		{[]string{"http://127.0.0.1:1", empty.URL}, false},
		{[]string{empty.URL, "http://127.0.0.1:1"}, false},
	} {
		_, _, err := fetch(t, machineFor(good, c.servers...))
		hint := problem.HintOf(err)
		if strings.Contains(hint, "has lost this version") != c.lost || strings.Contains(hint, "8480") == c.lost {
			t.Errorf("%q: %v, hint %q", c.servers, err, hint)
		}
	}
}

func TestFetchManifestRefuses(t *testing.T) {
	good := nodekit.Publish(t, nil)
	flipped := good
	flipped.Data = bytes.Replace(good.Data, []byte("6.1.0"), []byte("6.6.6"), 1)
	unsigned := good
	unsigned.Signature = nil
	other := nodekit.Publish(t, func(m *image.Manifest) { m.Kernel.Release = "6.1.0-2-amd64" })
	unknown := good
	unknown.Key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
	foreign := nodekit.Publish(t, func(m *image.Manifest) {
		m.Architecture = map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	})
	for name, c := range map[string]struct {
		asked, served nodekit.Published
		is            error
		hint          string
	}{
		"another version's bytes": {good, nodekit.Published{Data: other.Data, Signature: other.Signature}, nil, ""},
		"no signature":            {good, unsigned, image.ErrUnsigned, "signed"},
		"signature of another": {good, nodekit.Published{Data: good.Data, Signature: other.Signature},
			image.ErrWrongSignature, "signed"},
		"key nobody trusts":     {unknown, good, image.ErrWrongSignature, "signed"},
		"flipped after signing": {flipped, flipped, image.ErrWrongSignature, "signed"},
		"another architecture":  {foreign, foreign, nil, ""},
		"nothing, it is gone":   {good, other, nil, "lost this version"},
	} {
		m := machineFor(c.asked, c.served.Serve(t))
		_, _, err := fetch(t, m)
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %v", name, err, c.is)
		}
		if c.hint != "" && !strings.Contains(problem.HintOf(err), c.hint) {
			t.Errorf("%s: hint %q", name, problem.HintOf(err))
		}
	}
}

// TestRevokedKey: a key that the assignment revokes does not count, even if the trust cpio has it. On a boot from a
// medium the hint says that the medium may be too old.
func TestRevokedKey(t *testing.T) {
	p := nodekit.Publish(t, nil)
	_, unknown, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	revoke := func(m *machine) {
		a := m.timeline.assigned()
		a.RevokedKeys = []string{p.Key}
		m.timeline.assignment.Store(&a)
	}
	for name, c := range map[string]struct {
		change func(*machine, *nodekit.Published)
		is     error
		hint   string
	}{
		"revoked": {func(m *machine, _ *nodekit.Published) { revoke(m) }, image.ErrRevoked, "a revoked key " +
			"signed this version"},
		"revoked, from a medium": {func(m *machine,
			_ *nodekit.Published) {
			revoke(m)
			m.timeline.config.Medium = "sha256:x"
		}, image.ErrRevoked, "a revoked key"},
		"a medium that is older": {func(m *machine, p *nodekit.Published) {
			m.timeline.config.Medium = "sha256:x"
			p.Signature = image.Sign(unknown, p.Data)
		}, image.ErrWrongSignature, "pando media create"},
		"another one beside it": {func(m *machine,
			p *nodekit.Published) {
			p.Signature = append(image.Sign(unknown, p.Data), p.Signature...)
		}, nil, ""},
		"nothing of it is signed": {func(_ *machine, p *nodekit.Published) { p.Signature = nil }, image.ErrUnsigned,
			"not signed by a key"},
	} {
		served := p
		m := machineFor(p)
		c.change(m, &served)
		a := m.timeline.assigned()
		a.Servers = []string{served.Serve(t)}
		m.timeline.assignment.Store(&a)
		_, _, err := fetch(t, m)
		if !errors.Is(err, c.is) || (err == nil) != (c.is == nil) || !strings.Contains(problem.HintOf(err), c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, problem.HintOf(err))
		}
	}
}
