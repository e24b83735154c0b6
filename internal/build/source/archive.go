package source

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1"
)

// maxMembers bounds the number of files in the archive of an image. It has one for each layer and a few for each
// image.
const maxMembers = 100_000

// ociArchive is a tar archive of an OCI layout, or of `docker save`.
type ociArchive struct {
	ociLayout
	docker []savedImage // entries of manifest.json; nil for an OCI layout
}

// savedImage is one image in an archive of `docker save`.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// member is the position of a file in an archive, or the target of a link.
type member struct {
	off, size int64
	link      string
}

// tarFiles reads files of an archive in any order. It must be used by one goroutine.
type tarFiles struct {
	f       *os.File
	members map[string]member
}

// openArchive lists an archive. A compressed archive is unpacked first, because its files are not read in their
// order.
func (o *OCI) openArchive(ctx context.Context, keep string) (depot, error) {
	f, err := o.plainArchive(ctx, keep)
	if err != nil {
		return nil, err
	}
	t := &tarFiles{f: f, members: map[string]member{}}
	if err := t.list(); err != nil {
		head := make([]byte, headSize)
		n, _ := f.ReadAt(head, 0) // a short file is examined, too
		f.Close()
		if what := whatIs(head[:n]); what != "" && len(t.members) == 0 {
			return nil, errors.New(what)
		}
		return nil, fmt.Errorf("archive: %w", err)
	}
	a := &ociArchive{ociLayout: ociLayout{files: t, want: o.want}}
	if _, ok := t.members["index.json"]; ok {
		return a, nil
	}
	raw, err := readFile(t, "manifest.json")
	if err == nil {
		err = json.Unmarshal(raw, &a.docker)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf(
			"the archive has neither an OCI layout nor a saved image: %w; for a root file system there is --from-tar",
			err,
		)
	}
	return a, nil
}

// plainArchive opens the archive, or unpacks a compressed one and opens the result.
func (o *OCI) plainArchive(ctx context.Context, keep string) (*os.File, error) {
	f, err := os.Open(o.path)
	if err != nil {
		return nil, err
	}
	b, err := newBudget(keep, o.Limits)
	if err != nil {
		f.Close()
		return nil, err
	}
	z, err := decompress(ctx, packed{f, b})
	if err != nil {
		f.Close()
		return nil, err
	}
	defer z.Close()
	if _, plain := z.(plainReader); plain {
		_, err := f.Seek(0, io.SeekStart)
		return f, err
	}
	defer f.Close()
	out, err := os.OpenFile(filepath.Join(keep, "archive.tar"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(out, io.LimitReader(&unpacked{r: z, b: b}, b.free+1))
	if err == nil && n > b.free {
		err = b.tooLarge()
	}
	if err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	if err != nil {
		out.Close()
		return nil, roomHint(fmt.Errorf("unpack archive: %w", err), keep)
	}
	return out, nil
}

// list reads the headers. After a header is read, the file offset is that of its content.
func (t *tarFiles) list() error {
	in := tar.NewReader(t.f)
	for {
		h, err := in.Next()
		if err == io.EOF { //nolint:errorlint // archive/tar returns it bare
			return nil
		}
		if err != nil {
			return err
		}
		name, err := cleanName(h.Name)
		if err != nil {
			return err
		}
		if len(t.members) == maxMembers {
			return fmt.Errorf("it has more than %d files", maxMembers)
		}
		off, err := t.f.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			t.members[name] = member{off: off, size: h.Size}
		case tar.TypeLink:
			t.members[name] = member{link: path.Clean("/" + h.Linkname)[1:]}
		case tar.TypeSymlink: // old archives have each layer once, and links to it
			t.members[name] = member{link: path.Join("/", path.Dir(name), h.Linkname)[1:]}
		}
	}
}

func (t *tarFiles) open(name string) (io.ReadSeekCloser, error) {
	for range maxLinks {
		m, ok := t.members[name]
		if !ok {
			break
		}
		if m.link == "" {
			return sectionFile{io.NewSectionReader(t.f, m.off, m.size)}, nil
		}
		name = m.link
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (t *tarFiles) close() { t.f.Close() }

// sectionFile is a file in an archive. Closing it leaves the archive open.
type sectionFile struct{ *io.SectionReader }

func (sectionFile) Close() error { return nil }

// savedImage returns the image with the given name in an archive of `docker save`, or the only one. It verifies the
// config, whose name is its digest; the config lists the digests of the unpacked layers.
func (a *ociArchive) savedImage(want string) (*ociImage, error) {
	var names []string
	var found []savedImage
	for _, s := range a.docker {
		names = append(names, s.RepoTags...)
		if want == "" ||
			slices.ContainsFunc(
				s.RepoTags,
				func(tag string) bool { return tag == want || strings.HasSuffix(tag, ":"+want) },
			) {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf(
			"it has %d images %s; name one of %s behind the path",
			len(found),
			want,
			strings.Join(names, ", "),
		)
	}
	s := found[0]
	config, err := readFile(a.files, path.Clean("/" + s.Config)[1:])
	if err != nil {
		return nil, err
	}
	id, _, err := v1.SHA256(strings.NewReader(string(config)))
	if err != nil {
		return nil, err
	}
	if name := strings.TrimSuffix(path.Base(s.Config), ".json"); len(name) == len(id.Hex) && name != id.Hex {
		return nil, fmt.Errorf("config %s does not match the digest in its name", s.Config)
	}
	img := &ociImage{depot: a, digest: id.String()}
	descs := make([]v1.Descriptor, len(s.Layers))
	for i, name := range s.Layers {
		f, err := a.open(path.Clean("/" + name)[1:])
		if err != nil {
			return nil, errors.Join(errors.New("a layer is missing in it"), err)
		}
		if descs[i].Size, err = f.Seek(0, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	if err := img.describe(config, descs); err != nil {
		return nil, err
	}
	for i, l := range img.layers {
		l.open = func(context.Context) (io.ReadCloser, error) { return a.open(path.Clean("/" + s.Layers[i])[1:]) }
	}
	return img, nil
}
