package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// OCI is a container image in a registry, in a layout directory, or in an archive of `docker save`, `podman save` or
// skopeo.
type OCI struct {
	Ref          string // as given; see ParseOCI
	Architecture string // "amd64", "arm64"
	Limits       Limits

	path string // of a layout or archive; "" in a registry
	want string // in a registry: the reference; in a file: the name of one of several images, "" any
	http bool   // connect to the registry without TLS

	resolved *ociImage // set by State, used by Fill
}

// ParseOCI parses an image's name: a reference ("debian:bookworm", "registry.lab/image@sha256:..."; with http:// for
// a registry without TLS), or the path of a layout or archive, with ":NAME" if that has several images. An existing
// file is taken as a path. The prefixes of skopeo (docker://, oci:, oci-archive:, docker-archive:) choose explicitly.
func ParseOCI(ref, architecture string, l Limits) (*OCI, error) {
	o := &OCI{Ref: ref, Architecture: architecture, Limits: l}
	if o.Architecture == "" {
		o.Architecture = runtime.GOARCH
	}
	for _, prefix := range []string{"oci:", "oci-archive:", "docker-archive:"} {
		if path, ok := strings.CutPrefix(ref, prefix); ok {
			if !o.setPath(path) {
				return nil, fmt.Errorf("image %s: there is no such file or directory", ref)
			}
			return o, nil
		}
	}
	if rest, ok := strings.CutPrefix(ref, "docker://"); ok {
		o.want = rest
	} else if rest, ok := strings.CutPrefix(ref, "http://"); ok {
		o.want, o.http = rest, true
	} else if o.setPath(ref) {
		return o, nil
	} else {
		o.want = strings.TrimPrefix(ref, "https://")
	}
	if strings.HasPrefix(o.want, "/") || strings.HasPrefix(o.want, ".") {
		return nil, fmt.Errorf("image %s: there is no such file or directory", ref)
	}
	if _, err := o.reference(); err != nil {
		return nil, fmt.Errorf("image %s: no file has this name, and it is no reference: %w", ref, err)
	}
	return o, nil
}

// setPath takes the longest prefix of the text that is an existing file as the path, and the rest as the image's
// name.
func (o *OCI) setPath(text string) bool {
	for end := len(text); end > 0; end = strings.LastIndexAny(text[:end], ":@") {
		if _, err := os.Stat(text[:end]); err != nil {
			continue
		}
		o.path = text[:end]
		if end < len(text) {
			o.want = strings.TrimPrefix(text[end:], ":")
		}
		return true
	}
	return false
}

// Key contains the reference or the path, and the architecture.
func (o *OCI) Key() string {
	at := o.path
	if abs, err := filepath.Abs(at); err == nil && at != "" {
		at = abs
	}
	return "oci-" + short(strings.Join([]string{at, o.want, o.Architecture}, "\x00"))
}

// State is the digest of the image, or size and time of its archive.
func (o *OCI) State(ctx context.Context) (string, error) {
	if info, err := os.Stat(o.path); o.path != "" && err == nil && !info.IsDir() {
		return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano()), nil
	}
	if err := o.resolve(ctx, ""); err != nil {
		return "", fmt.Errorf("image %s: %w", o.Ref, err)
	}
	return o.resolved.digest, nil
}

// Fill unpacks the layers in order. After an interruption it keeps the fetched layers, and the fetched part of one.
func (o *OCI) Fill(ctx context.Context, p Place, progress func(Progress)) (Made, error) {
	m := Made{Kind: "oci", Name: o.Ref}
	if err := p.clear(); err != nil {
		return m, err
	}
	if err := o.fill(ctx, p, progress, &m); err != nil {
		return m, errors.Join(fmt.Errorf("image %s: %w", o.Ref, err), p.clear())
	}
	return m, nil
}

func (o *OCI) fill(ctx context.Context, p Place, progress func(Progress), m *Made) error {
	if err := o.resolve(ctx, p.Keep); err != nil {
		return err
	}
	img := o.resolved
	defer func() { o.resolved = nil; img.close() }()
	b, err := newBudget(p.Root, o.Limits)
	if err != nil {
		return err
	}
	m.Digest = img.digest
	bar := &bar{total: img.size() * img.passes(), progress: progress}
	if err := img.fetch(ctx, p.Keep, b, bar); err != nil {
		return err
	}
	u, err := newUnpacker(p.Root, true, b)
	if err != nil {
		return err
	}
	defer u.close()
	for i, l := range img.layers {
		bar.note(fmt.Sprintf("layer %d of %d", i+1, len(img.layers)))
		if err := u.layer(ctx, l, bar); err != nil {
			return fmt.Errorf("layer %d of %d (%s): %w", i+1, len(img.layers), l, err)
		}
	}
	notes, err := u.finish(ctx)
	m.Notes = append([]string{fmt.Sprintf("%s, %d layers", img.platform, len(img.layers))}, notes...)
	return err
}
