package initrd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"pando/internal/bootfiles"
	"pando/internal/image"
	"pando/internal/problem"
	"pando/internal/trace"
)

// startSources are where the root's start is asked for.
func (m *machine) startSources(ctx context.Context, client *http.Client) []bootfiles.Source {
	n := m.lease.Network()
	return bootfiles.Sources(ctx, client, m.assigned(), m.assigned().Pack, n.PrefixLength())
}

// peerFailed tells that a peer did not send what it should have: somebody else is asked.
func (m *machine) peerFailed(s bootfiles.Source, err error) {
	m.sources = slices.DeleteFunc(
		slices.Clone(m.sources),
		func(x bootfiles.Source) bool { return x == s },
	) // nor is it asked for what is read next
	bootfiles.Accuse(m.assigned().Servers, s, err)
	m.event(
		trace.Event{
			Stage:   trace.Manifest,
			Kind:    trace.Info,
			Message: "peer " + s.URL + ": " + err.Error(),
			Hint:    "the boot goes on with another source",
		},
	)
}

// usePack gets the map of the assigned boot pack and returns what to say of it, "" when none was assigned. A boot
// whose pack cannot be had goes on without.
func (m *machine) usePack(ctx context.Context, client *http.Client, sources []bootfiles.Source) string {
	m.pack = nil
	ref := m.assigned().Pack
	if ref == nil {
		return ""
	}
	f := bootfiles.Pack{Ref: *ref, Version: m.assigned().Version, Keys: m.packKeys(m.manifest), Failed: m.peerFailed}
	p, data, err := f.From(ctx, client, sources)
	if err != nil {
		m.event(trace.Event{Stage: trace.Manifest, Kind: trace.Info, Message: "no boot pack: " + err.Error(),
			Hint: "the boot goes on with chunks; `pando image trace` shows the state of the pack"})
		return ""
	}
	m.pack = data
	return fmt.Sprintf(", boot pack %d of %.1f MB", p.Sequence, float64(p.StoredSize())/1e6)
}

// fetchManifest gets the description of the assigned version. Neither digest nor signature depends on who
// sends it, so any server will do.
func (m *machine) fetchManifest(ctx context.Context) (string, error) {
	if m.isOffline() {
		return m.offlineManifest(m.offline), nil
	}
	client := bootfiles.NewClient()
	defer client.CloseIdleConnections()
	var errs []error
	sources := m.startSources(ctx, client)
	for i, source := range sources {
		man, err := m.manifestFrom(ctx, client, source)
		if err == nil {
			m.manifest, m.sources = man, sources[i:]
			pack := m.usePack(ctx, client, sources[i:])
			return fmt.Sprintf(
				"%s, %d MB root, signature good%s",
				m.assigned().Version.Short(),
				man.Root.Size/1e6,
				pack,
			), nil
		}
		if source.Peer {
			m.peerFailed(source, err)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", source.URL, err))
	}
	return "", &problem.Problem{
		Err:   errors.Join(errs...),
		Tried: strings.Join(m.assigned().Servers, ", "),
		Hint:  m.manifestHint(errors.Join(errs...)),
	}
}

// trust is whose signatures count: those of the trust cpio but for the ones that the assignment revokes.
func (m *machine) trust() image.Trust {
	return image.Trust{Keys: m.config.TrustKeys, Revoked: m.assigned().RevokedKeys}
}

// packKeys are the keys that may sign the boot pack of a version.
func (m *machine) packKeys(man image.Manifest) []string {
	t := m.trust()
	if man.PackKey != "" {
		t.Keys = []string{man.PackKey}
	}
	return t.Accepted()
}

func (m *machine) manifestHint(all error) string {
	var answer *bootfiles.StatusError
	switch {
	case errors.Is(all, image.ErrRevoked):
		return "a revoked key signed this version and no other did: give the group another version, or build it again"
	case errors.Is(all, image.ErrWrongSignature) && m.config.Medium != "":
		return "this version is not signed by a key that this boot medium trusts; it may be older than the site's " +
			"keys: make it anew with `pando media create`"
	case errors.Is(all, image.ErrWrongSignature), errors.Is(all, image.ErrUnsigned):
		return "this version is not signed by a key that the site trusts: `pando image list`, build it on this " +
			"server or add its key"
	case errors.As(all, &answer) && answer.Code == http.StatusNotFound:
		return "the server has lost this version: build or copy it again; the node takes it as soon as it is there"
	}
	return ""
}

func (m *machine) manifestFrom(ctx context.Context, client *http.Client, from bootfiles.Source) (image.Manifest, error) {
	ctx, cancel := from.Bound(ctx)
	defer cancel()
	man, data, signature, err := bootfiles.SignedManifest(ctx, client, from.URL, m.assigned().Version, m.trust())
	if err != nil {
		return man, err
	}
	if man.IsExtension() {
		return man, errors.New("the version is an extension, which boots nothing")
	}
	if man.Architecture != runtime.GOARCH {
		return man, fmt.Errorf("the version is for %s, this machine is %s", man.Architecture, runtime.GOARCH)
	}
	m.manifestBytes, m.manifestSignature = data, signature
	return man, nil
}
