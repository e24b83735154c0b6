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
func (v *version) startSources(ctx context.Context, client *http.Client) []bootfiles.Source {
	n := v.network.lease.Network()
	return bootfiles.Sources(ctx, client, v.timeline.assigned(), v.timeline.assigned().Pack, n.PrefixLength())
}

// peerFailed tells that a peer did not send what it should have: somebody else is asked.
func (v *version) peerFailed(s bootfiles.Source, err error) {
	v.sources = slices.DeleteFunc(
		slices.Clone(v.sources),
		func(x bootfiles.Source) bool { return x == s },
	) // nor is it asked for what is read next
	bootfiles.ReportCorrupt(v.timeline.assigned().Servers, s, err)
	v.timeline.event(
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
func (v *version) usePack(ctx context.Context, client *http.Client, sources []bootfiles.Source) string {
	v.pack = nil
	ref := v.timeline.assigned().Pack
	if ref == nil {
		return ""
	}
	f := bootfiles.Pack{Ref: *ref, Version: v.timeline.assigned().Version, Keys: v.packKeys(v.manifest), Failed: v.peerFailed}
	p, data, err := f.From(ctx, client, sources)
	if err != nil {
		v.timeline.event(trace.Event{Stage: trace.Manifest, Kind: trace.Info, Message: "no boot pack: " + err.Error(),
			Hint: "the boot goes on with chunks; `pando image trace` shows the state of the pack"})
		return ""
	}
	v.pack = data
	return fmt.Sprintf(", boot pack %d of %.1f MB", p.Sequence, float64(p.StoredSize())/1e6)
}

// fetchManifest gets the description of the assigned version. Neither digest nor signature depends on who
// sends it, so any server will do.
func (v *version) fetchManifest(ctx context.Context) (string, error) {
	if v.fallback.isOffline() {
		return v.fallback.offlineManifest(v.fallback.offline), nil
	}
	client := bootfiles.NewClient()
	defer client.CloseIdleConnections()
	var errs []error
	sources := v.startSources(ctx, client)
	for i, source := range sources {
		man, err := v.manifestFrom(ctx, client, source)
		if err == nil {
			v.manifest, v.sources = man, sources[i:]
			pack := v.usePack(ctx, client, sources[i:])
			return fmt.Sprintf(
				"%s, %d MB root, signature good%s",
				v.timeline.assigned().Version.Short(),
				man.Root.Size/1e6,
				pack,
			), nil
		}
		if source.Peer {
			v.peerFailed(source, err)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", source.URL, err))
	}
	return "", &problem.Problem{
		Err:   errors.Join(errs...),
		Tried: strings.Join(v.timeline.assigned().Servers, ", "),
		Hint:  v.manifestHint(errors.Join(errs...)),
	}
}

// trust is whose signatures count: those of the trust cpio but for the ones that the assignment revokes.
func (v *version) trust() image.Trust {
	return image.Trust{Keys: v.timeline.config.TrustKeys, Revoked: v.timeline.assigned().RevokedKeys}
}

// packKeys are the keys that may sign the boot pack of a version.
func (v *version) packKeys(man image.Manifest) []string {
	t := v.trust()
	if man.PackKey != "" {
		t.Keys = []string{man.PackKey}
	}
	return t.Accepted()
}

func (v *version) manifestHint(all error) string {
	var answer *bootfiles.StatusError
	switch {
	case errors.Is(all, image.ErrRevoked):
		return "a revoked key signed this version and no other did: give the group another version, or build it again"
	case errors.Is(all, image.ErrWrongSignature) && v.timeline.config.Medium != "":
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

func (v *version) manifestFrom(ctx context.Context, client *http.Client, from bootfiles.Source) (image.Manifest, error) {
	ctx, cancel := from.Bound(ctx)
	defer cancel()
	man, data, signature, err := bootfiles.SignedManifest(ctx, client, from.URL, v.timeline.assigned().Version, v.trust())
	if err != nil {
		return man, err
	}
	if man.IsExtension() {
		return man, errors.New("the version is an extension, which boots nothing")
	}
	if man.Architecture != runtime.GOARCH {
		return man, fmt.Errorf("the version is for %s, this machine is %s", man.Architecture, runtime.GOARCH)
	}
	v.manifestBytes, v.manifestSignature = data, signature
	return man, nil
}
