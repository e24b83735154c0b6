package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
)

const (
	maxDocument = 4 << 20 // bytes of a manifest, index or config; registries take no more
	maxIndexes  = 4       // levels of nested indexes
	maxLayers   = 1000    // of an image; overlayfs has 500
)

// depot is where images are read from: a registry, a layout directory, or an archive of one.
type depot interface {
	// top returns what the reference names: a manifest, or an index of several.
	top(ctx context.Context) (v1.Descriptor, []byte, error)
	// document returns a manifest, index or config, not verified.
	document(ctx context.Context, d v1.Descriptor) ([]byte, error)
	// blob returns a layer from an offset on, not verified.
	blob(ctx context.Context, d v1.Descriptor, from int64) (io.ReadCloser, error)
	// local reports whether blobs need not be fetched.
	local() bool
	close()
}

// ociImage is an image whose manifest and config are verified.
type ociImage struct {
	depot
	digest   string // of the manifest; of the config in an archive of `docker save`, which has no manifest
	platform string // "linux/amd64"
	layers   []*ociLayer
}

// ociLayer is one layer of an image.
type ociLayer struct {
	desc   v1.Descriptor // without a digest if only the digest of the unpacked layer is known
	diffID v1.Hash       // digest of the unpacked archive
	open   func(ctx context.Context) (io.ReadCloser, error)
}

func (l *ociLayer) String() string {
	if l.desc.Digest.Hex != "" {
		return l.desc.Digest.String()
	}
	return l.diffID.String()
}

// size returns the bytes of all layers as stored.
func (i *ociImage) size() int64 {
	n := int64(0)
	for _, l := range i.layers {
		n += l.desc.Size
	}
	return n
}

// passes returns how often each byte of a layer counts in the progress: once when it is fetched, once when unpacked.
func (i *ociImage) passes() int64 {
	if i.local() {
		return 1
	}
	return 2
}

// resolve finds the image and reads its manifest and config. keep is a directory for an archive that must be unpacked
// first.
func (o *OCI) resolve(ctx context.Context, keep string) error {
	if o.resolved != nil {
		return nil
	}
	img, err := o.find(ctx, keep)
	if err == nil {
		o.resolved = img
	}
	return err
}

func (o *OCI) find(ctx context.Context, keep string) (*ociImage, error) {
	d, err := o.depot(ctx, keep)
	if err != nil {
		return nil, err
	}
	var img *ociImage
	if a, ok := d.(*ociArchive); ok && a.docker != nil {
		img, err = a.savedImage(o.want)
	} else {
		img, err = readImage(ctx, d, o.Architecture)
	}
	if err == nil {
		err = img.check(o.Architecture)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return img, nil
}

// readImage resolves a reference to the manifest of one architecture, and reads that manifest.
func readImage(ctx context.Context, d depot, architecture string) (*ociImage, error) {
	desc, raw, err := d.top(ctx)
	for depth := 0; err == nil && desc.MediaType.IsIndex(); depth++ {
		if depth == maxIndexes {
			return nil, errors.New("indexes are nested too deep")
		}
		if desc, err = choose(raw, architecture); err == nil {
			raw, err = verified(ctx, d, desc)
		}
	}
	if err != nil {
		return nil, err
	}
	if !desc.MediaType.IsImage() {
		return nil, fmt.Errorf("it is no image: its type is %q", desc.MediaType)
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if !m.Config.MediaType.IsConfig() {
		return nil, fmt.Errorf(
			"it is not the image of a root file system: its config is of type %q",
			m.Config.MediaType,
		)
	}
	raw, err = verified(ctx, d, m.Config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	img := &ociImage{depot: d, digest: desc.Digest.String()}
	return img, img.describe(raw, m.Layers)
}

// describe reads platform and layers from the config, and the sizes of the layers from the manifest.
func (i *ociImage) describe(config []byte, layers []v1.Descriptor) error {
	c, err := v1.ParseConfigFile(bytes.NewReader(config))
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if len(c.RootFS.DiffIDs) != len(layers) {
		return fmt.Errorf("the config lists %d layers, the manifest %d", len(c.RootFS.DiffIDs), len(layers))
	}
	if len(layers) > maxLayers {
		return fmt.Errorf("it has %d layers, at most %d are taken", len(layers), maxLayers)
	}
	i.platform = c.OS + "/" + c.Architecture
	for n, desc := range layers {
		l := &ociLayer{desc: desc, diffID: c.RootFS.DiffIDs[n]}
		l.open = func(ctx context.Context) (io.ReadCloser, error) { return i.blob(ctx, l.desc, 0) }
		if desc.Size < 0 || !desc.MediaType.IsDistributable() ||
			strings.HasSuffix(string(desc.MediaType), "+encrypted") {
			return fmt.Errorf("layer %s of type %q is encrypted, or not in the registry", l, desc.MediaType)
		}
		i.layers = append(i.layers, l)
	}
	return nil
}

// check returns an error for an image that nodes cannot run.
func (i *ociImage) check(architecture string) error {
	system, is, _ := strings.Cut(i.platform, "/")
	if system != "" && system != "linux" {
		return fmt.Errorf("it is for %s; nodes run Linux", system)
	}
	if is != "" && is != architecture {
		return fmt.Errorf(
			"it is for %s, not for %s; say so with --architecture %s if that is meant",
			is,
			architecture,
			is,
		)
	}
	if len(i.layers) == 0 {
		return errors.New("it has no layers")
	}
	return nil
}

// choose returns the entry of an index for Linux and the architecture. It takes an entry without a platform only if
// there is no other. Builders mark entries that are no images as "unknown".
func choose(index []byte, architecture string) (v1.Descriptor, error) {
	var none v1.Descriptor
	m, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return none, fmt.Errorf("index: %w", err)
	}
	var exact, bare []v1.Descriptor
	var has []string
	for _, d := range m.Manifests {
		switch {
		case !d.MediaType.IsImage() && !d.MediaType.IsIndex(), d.Platform != nil && d.Platform.OS == "unknown":
		case d.Platform == nil || d.MediaType.IsIndex():
			bare = append(bare, d)
		case d.Platform.OS == "linux" && d.Platform.Architecture == architecture:
			exact = append(exact, d)
		default:
			has = append(has, d.Platform.String())
		}
	}
	found := exact
	if len(found) == 0 {
		found = bare
	}
	if len(found) == 0 {
		return none, fmt.Errorf("it has no image for linux/%s, but for %s", architecture, strings.Join(has, ", "))
	}
	// An entry without a variant runs on all machines of its architecture, and sorts first.
	best := slices.MinFunc(found, func(a, b v1.Descriptor) int { return strings.Compare(variant(a), variant(b)) })
	for _, d := range found {
		if variant(d) == variant(best) && d.Digest != best.Digest {
			return none, fmt.Errorf("it has several images; name one of %s", strings.Join(refNames(found), ", "))
		}
	}
	return best, nil
}

func variant(d v1.Descriptor) string {
	if d.Platform == nil {
		return ""
	}
	return d.Platform.Variant
}

// refName is the annotation with an image's name in an OCI image layout.
const refName = "org.opencontainers.image.ref.name"

func refNames(list []v1.Descriptor) []string {
	var out []string
	for _, d := range list {
		name := d.Annotations[refName]
		if name == "" {
			name = "@" + d.Digest.String()
		}
		out = append(out, name)
	}
	return out
}

// verified reads a document and checks it against its descriptor.
func verified(ctx context.Context, d depot, desc v1.Descriptor) ([]byte, error) {
	if desc.Size < 0 || desc.Size > maxDocument {
		return nil, fmt.Errorf("document %s has %d bytes, at most %d are read", desc.Digest, desc.Size, maxDocument)
	}
	raw, err := d.document(ctx, desc)
	if err != nil {
		return nil, err
	}
	return raw, checkDigest(raw, desc.Digest)
}

func checkDigest(raw []byte, want v1.Hash) error {
	got, _, err := v1.SHA256(bytes.NewReader(raw))
	if err == nil && got != want {
		err = fmt.Errorf("document %s does not match its digest", want)
	}
	return err
}
