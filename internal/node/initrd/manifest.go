package initrd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/bootfiles"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/lastboot"
	"pando/internal/link"
	"pando/internal/problem"
	"pando/internal/trace"
)

// startSources returns the sources of the root's bootstrap files.
func startSources(
	ctx context.Context, client *http.Client, as fleet.Assignment, lease link.Lease,
) []bootfiles.Source {
	n := lease.Network()
	return bootfiles.Sources(ctx, client, as, as.Pack, n.PrefixLength())
}

// peerFailed reports that a peer did not send a valid file. The caller tries the next source.
func (v *version) peerFailed(as fleet.Assignment, s bootfiles.Source, err error) {
	bootfiles.ReportCorrupt(as.Servers, s, err)
	v.timeline.event(
		trace.Event{
			Stage:   trace.Manifest,
			Kind:    trace.Info,
			Message: "peer " + s.URL + ": " + err.Error(),
			Hint:    "the boot goes on with another source",
		},
	)
}

// usePack fetches the map of the assigned boot pack into got. It returns the end of the phase's message, "" if no
// pack is assigned. A boot goes on without a pack that cannot be fetched.
func (v *version) usePack(ctx context.Context, client *http.Client, as fleet.Assignment, got *Verified) string {
	ref := as.Pack
	if ref == nil {
		return ""
	}
	f := bootfiles.Pack{Ref: *ref, Version: as.Version, Keys: v.packKeys(as, got.Manifest),
		Failed: func(s bootfiles.Source, err error) { // do not use the peer for later requests
			got.Sources = slices.DeleteFunc(slices.Clone(got.Sources), func(x bootfiles.Source) bool { return x == s })
			v.peerFailed(as, s, err)
		}}
	p, data, err := f.From(ctx, client, got.Sources)
	if err != nil {
		v.timeline.event(trace.Event{Stage: trace.Manifest, Kind: trace.Info, Message: "no boot pack: " + err.Error(),
			Hint: "the boot goes on with chunks; `pando image trace` shows the state of the pack"})
		return ""
	}
	got.Pack = data
	return fmt.Sprintf(", boot pack %d of %.1f MB", p.Sequence, float64(p.StoredSize())/1e6)
}

// fetchManifest fetches and verifies the manifest of the assigned version. Digest and signature do not depend on the
// sender, so any source will do.
func (v *version) fetchManifest(ctx context.Context, s *Session, lease link.Lease) (*Verified, string, error) {
	if s.Offline != nil {
		got, text := v.offlineManifest(s.Offline)
		return got, text, nil
	}
	as := s.Assignment
	client := bootfiles.NewClient()
	defer client.CloseIdleConnections()
	var errs []error
	sources := startSources(ctx, client, as, lease)
	for i, source := range sources {
		got, err := v.manifestFrom(ctx, client, as, source)
		if err == nil {
			got.Sources = sources[i:]
			pack := v.usePack(ctx, client, as, got)
			return got, fmt.Sprintf(
				"%s, %d MB root, signature good%s",
				as.Version.Short(),
				got.Manifest.Root.Size/1e6,
				pack,
			), nil
		}
		if source.Peer {
			v.peerFailed(as, source, err)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", source.URL, err))
	}
	return nil, "", &problem.Problem{
		Err:   errors.Join(errs...),
		Tried: strings.Join(as.Servers, ", "),
		Hint:  v.manifestHint(errs),
	}
}

// trust returns the keys whose signatures count: those of the trust cpio without those that the assignment revokes.
func trust(cfg api.BootConfig, as fleet.Assignment) image.Trust {
	return image.Trust{Keys: cfg.TrustKeys, Revoked: as.RevokedKeys}
}

// offlineManifest returns the manifest and the boot pack of a kept boot.
func (v *version) offlineManifest(b *lastboot.Boot) (*Verified, string) {
	got := &Verified{Manifest: b.Man}
	if ref := b.As.Pack; ref != nil && len(b.Pack) > 0 {
		keys := v.packKeys(b.As, b.Man)
		if _, err := bootpack.Verify(b.Pack, []byte(ref.Signature), b.As.Version, keys...); err == nil {
			got.Pack = b.Pack
		}
	}
	return got, fmt.Sprintf("%s, %d MB root, as kept, signature good", b.As.Version.Short(), b.Man.Root.Size/1e6)
}

// packKeys returns the keys that may sign a version's boot pack.
func (v *version) packKeys(as fleet.Assignment, man image.Manifest) []string {
	t := trust(v.timeline.config, as)
	if man.PackKey != "" {
		t.Keys = []string{man.PackKey}
	}
	return t.Accepted()
}

func (v *version) manifestHint(errs []error) string {
	all, lost := errors.Join(errs...), 0
	for _, err := range errs {
		var answer *bootfiles.StatusError
		if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
			lost++
		}
	}
	switch {
	case errors.Is(all, image.ErrRevoked):
		return "a revoked key signed this version and no other did: give the group another version, or build it again"
	case errors.Is(all, image.ErrWrongSignature) && v.timeline.config.Medium != "":
		return "this version is not signed by a key that this boot medium trusts; it may be older than the site's " +
			"keys: make it again with `pando media create`"
	case errors.Is(all, image.ErrWrongSignature), errors.Is(all, image.ErrUnsigned):
		return "this version is not signed by a key that the site trusts: `pando image list`, build it on this " +
			"server or add its key"
	case lost > 0 && lost < len(errs):
		return "the servers that answer do not have this version, and the others do not answer: does `pando serve` " +
			"run there, and is its port 8480 open? The node takes it from the first that has it"
	case lost > 0:
		return "the server has lost this version: build or copy it again; the node takes it as soon as it is there"
	}
	return ""
}

func (v *version) manifestFrom(
	ctx context.Context, client *http.Client, as fleet.Assignment, from bootfiles.Source,
) (*Verified, error) {
	ctx, cancel := from.Bound(ctx)
	defer cancel()
	man, data, signature, err := bootfiles.SignedManifest(
		ctx,
		client,
		from.URL,
		as.Version,
		trust(v.timeline.config, as),
	)
	if err != nil {
		return nil, err
	}
	if man.IsExtension() {
		return nil, errors.New("the version is an extension, which boots nothing")
	}
	if a := man.Architecture; a != runtime.GOARCH {
		return nil, fmt.Errorf("the version is for %s, this machine is %s", a, runtime.GOARCH)
	}
	return &Verified{Manifest: man, Bytes: data, Signature: signature}, nil
}
