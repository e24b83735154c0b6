package systree

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"slices"
	"strings"

	"pando/internal/image"
)

// Databases of package managers. Only plain-text ones are read.
const (
	dpkgStatus = "var/lib/dpkg/status"
	DpkgInfo   = "var/lib/dpkg/info"
	apkStatus  = "lib/apk/db/installed"
)

// Packages lists the packages that dpkg or apk has installed in a tree; for other trees it returns none.
func Packages(tree string) []image.Package {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil
	}
	defer root.Close()
	return ReadPackages(func(name string) (io.ReadCloser, error) { return root.Open(name) })
}

// ReadPackages is Packages for a tree whose files are opened by open.
func ReadPackages(open func(string) (io.ReadCloser, error)) (out []image.Package) {
	for name, fields := range map[string]packageFields{dpkgStatus: dpkgFields, apkStatus: apkFields} {
		f, err := open(name)
		if err != nil {
			continue
		}
		out = append(out, fields.parse(f)...)
		f.Close()
	}
	slices.SortFunc(out, func(a, b image.Package) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Architecture, b.Architecture))
	})
	return out
}

// packageFields are the names of a database's fields, and the separator of name and value.
type packageFields struct{ kind, between, name, version, architecture, source, status string }

var (
	dpkgFields = packageFields{"deb", ": ", "Package", "Version", "Architecture", "Source", "Status"}
	apkFields  = packageFields{"apk", ":", "P", "V", "A", "o", ""}
)

// parse reads paragraphs of fields, one for each package.
func (f packageFields) parse(r io.Reader) (out []image.Package) {
	p, installed := image.Package{}, f.status == ""
	end := func() {
		if installed && p.Name != "" {
			p.Kind = f.kind
			out = append(out, p)
		}
		p, installed = image.Package{}, f.status == ""
	}
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		key, value, _ := strings.Cut(in.Text(), f.between)
		switch key {
		case "":
			end()
		case f.name:
			p.Name = value
		case f.version:
			p.Version = value
		case f.architecture:
			p.Architecture = value
		case f.source:
			p.Source, _, _ = strings.Cut(value, " ")
		case f.status:
			installed = strings.HasSuffix(value, " installed")
		}
	}
	end()
	return out
}
