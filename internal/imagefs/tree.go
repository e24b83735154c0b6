package imagefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"pando/internal/image"
	"pando/internal/store"
	"pando/internal/systree"
)

// Tree reads files of a version's root file system from the store. It must be used by one goroutine.
type Tree struct {
	*Map
	Reader *Reader
}

// OpenTree opens the root file system of a version and reads its map.
func OpenTree(ctx context.Context, d *store.Dir, m image.Manifest) (*Tree, error) {
	files, err := ReadMap(ctx, d, m)
	if err != nil {
		return nil, err
	}
	r, err := Open(ctx, d, m)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	return &Tree{files, r}, nil
}

// maxRead is the largest file that ReadFile reads, in bytes.
const maxRead = 64 << 20

// ReadFile returns the content of a regular file, or the target of a symbolic link. It follows no link.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	f, ok := t.Find(name)
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return t.Content(f)
}

// Content returns the content of a regular file, or the target of a symbolic link.
func (t *Tree) Content(f File) ([]byte, error) {
	if kind := int(f.Mode) & erofsType; kind != erofsRegular && kind != erofsLink {
		return nil, &fs.PathError{Op: "read", Path: f.Path, Err: errors.New("neither a file nor a link")}
	}
	if f.Target != "" {
		return []byte(f.Target), nil
	}
	if f.Size > maxRead {
		return nil, &fs.PathError{Op: "read", Path: f.Path, Err: errors.New("too large")}
	}
	b := make([]byte, f.Size)
	if _, err := t.Reader.ReadAt(b, f.Data); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	return b, nil
}

// Packages lists the installed packages, from dpkg or apk.
func (t *Tree) Packages() []image.Package {
	return systree.ReadPackages(func(name string) (io.ReadCloser, error) {
		b, err := t.ReadFile(name)
		return io.NopCloser(strings.NewReader(string(b))), err
	})
}

// Owners maps the path of a file, without a leading slash, to the package that installed it, as recorded by dpkg.
func (t *Tree) Owners() (map[string]string, error) {
	owners := map[string]string{}
	for _, f := range t.files {
		dir, name := path.Split(f.Path)
		list, ok := strings.CutSuffix(name, ".list")
		if !ok || path.Clean(dir) != systree.DpkgInfo {
			continue
		}
		b, err := t.Content(f)
		if err != nil {
			return nil, err
		}
		list, _, _ = strings.Cut(list, ":") // the file may be named libc6:amd64.list
		for line := range strings.Lines(string(b)) {
			line = strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "/")
			owners[line] = list
			// dpkg may record the path from before the directory was merged into /usr
			for _, moved := range []string{"bin/", "sbin/", "lib/", "lib64/"} {
				if strings.HasPrefix(line, moved) {
					owners["usr/"+line] = list
				}
			}
		}
	}
	return owners, nil
}

// System returns ID and VERSION_ID of the root's os-release, or "".
func (t *Tree) System() (id, version string) {
	b, err := t.ReadFile("usr/lib/os-release")
	if err != nil {
		if b, err = t.ReadFile("etc/os-release"); err != nil {
			return "", ""
		}
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			id = value
		case "VERSION_ID":
			version = value
		}
	}
	return id, version
}
