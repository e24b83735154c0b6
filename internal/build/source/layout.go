package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// files reads the files of a layout, in a directory or in an archive.
type files interface {
	open(name string) (io.ReadSeekCloser, error)
	close()
}

// ociLayout is an OCI image layout: index.json lists manifests, and blobs/ has all objects by digest.
type ociLayout struct {
	files
	want string // name of one of its images, or "@sha256:..."; "": the only one
}

// depot opens the registry, directory or archive of the image.
func (o *OCI) depot(ctx context.Context, keep string) (depot, error) {
	if o.path == "" {
		return o.openRegistry(ctx)
	}
	info, err := os.Stat(o.path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return o.openArchive(ctx, keep)
	}
	root, err := os.OpenRoot(o.path)
	if err != nil {
		return nil, err
	}
	if _, err := root.Stat("index.json"); err != nil {
		root.Close()
		return nil, errors.New(
			"the directory is no OCI layout: it has no index.json; for a root file system there is --from-dir",
		)
	}
	return &ociLayout{files: rootFiles{root}, want: o.want}, nil
}

// rootFiles is a directory; links in it do not lead out.
type rootFiles struct{ root *os.Root }

func (r rootFiles) open(name string) (io.ReadSeekCloser, error) { return r.root.Open(name) }

func (r rootFiles) close() { r.root.Close() }

func (l *ociLayout) local() bool { return true }

// top returns index.json, or the requested entry in it.
func (l *ociLayout) top(ctx context.Context) (v1.Descriptor, []byte, error) {
	var none v1.Descriptor
	raw, err := readFile(l.files, "index.json")
	if err != nil {
		return none, nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return none, nil, fmt.Errorf("index.json: %w", err)
	}
	names := refNames(index.Manifests)
	if l.want == "" {
		for _, d := range index.Manifests {
			if d.Annotations[refName] != index.Manifests[0].Annotations[refName] {
				return none, nil, fmt.Errorf(
					"it has several images; name one of %s behind the path",
					strings.Join(names, ", "),
				)
			}
		}
		return v1.Descriptor{MediaType: types.OCIImageIndex}, raw, nil
	}
	for _, d := range index.Manifests {
		if l.named(d) {
			raw, err := verified(ctx, l, d)
			return d, raw, err
		}
	}
	return none, nil, fmt.Errorf("it has no image %s, but %s", l.want, strings.Join(names, ", "))
}

// named reports whether an entry has the requested name. Docker annotates only the tag, other programs the full name.
func (l *ociLayout) named(d v1.Descriptor) bool {
	name, full := d.Annotations[refName], d.Annotations["io.containerd.image.name"]
	return l.want == "@"+d.Digest.String() || l.want == name || strings.HasSuffix(name, ":"+l.want) ||
		strings.HasSuffix("/"+full, "/"+l.want)
}

func (l *ociLayout) document(_ context.Context, d v1.Descriptor) ([]byte, error) {
	return readFile(l.files, blobName(d.Digest))
}

func (l *ociLayout) blob(_ context.Context, d v1.Descriptor, _ int64) (io.ReadCloser, error) {
	return l.open(blobName(d.Digest))
}

// blobName returns the path of a blob in a layout. A parsed digest has no slashes.
func blobName(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// readFile reads a document of limited size.
func readFile(from files, name string) ([]byte, error) {
	f, err := from.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing in it", name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = fmt.Errorf("%s has more than %d bytes", name, maxDocument)
	}
	return raw, err
}
