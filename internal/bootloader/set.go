package bootloader

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"pando/internal/hint"
	"pando/internal/netboot"
	"pando/internal/store"
)

// PackageDir is where Debian's package ipxe puts its builds.
const PackageDir = "/usr/lib/ipxe"

// ImportDir is the directory of imported builds in a data directory.
const ImportDir = "loaders"

// Loader is one build of iPXE.
type Loader struct {
	netboot.Build
	Name     string // that firmware asks for
	Path     string
	Imported bool // by the site
	Data     []byte
}

// SHA256 is the digest of the build, in hex.
func (l Loader) SHA256() string {
	sum := sha256.Sum256(l.Data)
	return hex.EncodeToString(sum[:])
}

// Set is the builds at hand. It is safe for concurrent use. A transfer under way is of the build that it began with.
type Set struct {
	imports string
	dirs    []string
	change  sync.Mutex // held while the directory of imports changes and is read again

	mu     sync.Mutex
	active map[netboot.Class]Loader
}

// Dirs are the directories with builds of packages, the preferred first: those that come with this program, and
// Debian's. With a directory that the operator names there is no other.
func Dirs(named, program string) []string {
	if named != "" {
		return []string{named}
	}
	dirs := []string{PackageDir}
	if program != "" {
		prefix := filepath.Dir(filepath.Dir(program))
		dirs = append([]string{filepath.Join(prefix, "ipxe"), filepath.Join(prefix, "lib/pando/ipxe")}, dirs...)
	}
	return dirs
}

// Open looks for builds. imports is the directory of imported ones, "" where there are none. Errors are of files that
// are there and cannot be used; the others are used all the same.
func Open(imports string, dirs ...string) (*Set, error) {
	s := &Set{imports: imports, dirs: dirs}
	return s, s.look()
}

// look reads all builds. For each class an imported one is taken, else the first that verifies digests, else the first.
func (s *Set) look() error {
	active, bad := map[netboot.Class]Loader{}, error(nil)
	dirs := s.dirs
	if s.imports != "" {
		dirs = append([]string{s.imports}, dirs...)
	}
	for _, class := range netboot.Classes() {
		for _, dir := range dirs {
			l, err := find(dir, class, dir == s.imports)
			bad = errors.Join(bad, err)
			if l.Name == "" {
				continue
			}
			if was, ok := active[class]; !ok || !was.Imported && l.Digests && !was.Digests {
				active[class] = l
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = active
	return bad
}

// find is the best build of a class in a directory; one without a name: there is none.
func find(dir string, class netboot.Class, imported bool) (Loader, error) {
	var bad error
	for _, name := range netboot.Candidates(class) {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			bad = errors.Join(bad, fmt.Errorf("boot loader: %w", err))
			continue
		}
		b, err := netboot.InspectLoader(data)
		if err == nil && b.Class != class {
			err = fmt.Errorf("it is for %s firmware", b.Class)
		}
		switch {
		case err != nil && (imported || len(data) == 0): // it was whole when it was imported
			bad = errors.Join(bad, fmt.Errorf("boot loader %s: %w", path, err))
			continue
		case err != nil: // the operator put it there under this name, and may know why
			b = netboot.Build{Class: class}
		}
		return Loader{Build: b, Name: name, Path: path, Imported: imported, Data: data}, bad
	}
	return Loader{}, bad
}

// List returns the builds that machines are sent, in the order of netboot.Classes.
func (s *Set) List() []Loader {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Loader
	for _, class := range netboot.Classes() {
		if l, ok := s.active[class]; ok {
			out = append(out, l)
		}
	}
	return out
}

// Names are the file names by class, for the packages that tell firmware what to load.
func (s *Set) Names() netboot.Loaders {
	out := netboot.Loaders{}
	for _, l := range s.List() {
		out[l.Class] = l.Name
	}
	return out
}

// Sent are the file names that firmware may ask for, for people.
func (s *Set) Sent() []string {
	var names []string
	for _, l := range s.List() {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return names
}

// File returns the build of a name, nil if there is none.
func (s *Set) File(name string) []byte {
	for _, l := range s.List() {
		if l.Name == name {
			return l.Data
		}
	}
	return nil
}

// Asked returns the build that a TFTP name asks for. An old ROM may append the number of the next option in its DHCP
// packet, which is often a letter: "undionly.kpxeC".
func (s *Set) Asked(name string) []byte {
	var found Loader
	for _, l := range s.List() {
		if len(l.Name) > len(found.Name) && strings.HasPrefix(name, l.Name) {
			found = l
		}
	}
	return found.Data
}

// Import makes a build the one that machines of its class are sent, from now on.
func (s *Set) Import(data []byte) (Loader, error) {
	b, err := netboot.InspectLoader(data)
	if err != nil {
		return Loader{}, err
	}
	s.change.Lock()
	defer s.change.Unlock()
	// The name of the class stays the same whatever is sent under it: a site's own DHCP server names it.
	name := cmp.Or(s.Names()[b.Class], netboot.Candidates(b.Class)[0])
	if err := os.MkdirAll(s.imports, 0o755); err != nil {
		return Loader{}, fmt.Errorf("import a boot loader: %w", err)
	}
	if err := store.WriteFile(filepath.Join(s.imports, name), data, 0o644); err != nil {
		return Loader{}, fmt.Errorf("import a boot loader: %w", err)
	}
	err = s.look() // also has errors of files that were there before
	for _, l := range s.List() {
		if l.Class == b.Class && l.Imported && bytes.Equal(l.Data, data) {
			return l, nil
		}
	}
	return Loader{}, fmt.Errorf("import a boot loader: %w", err)
}

// Delete removes the imported build of a class; a package's is sent again, if there is one.
func (s *Set) Delete(class netboot.Class) error {
	s.change.Lock()
	defer s.change.Unlock()
	i := slices.IndexFunc(s.List(), func(l Loader) bool { return l.Class == class && l.Imported })
	if i < 0 {
		return hint.With(fmt.Errorf("no boot loader for %s firmware was imported: %w", class, fs.ErrNotExist),
			"`pando loader list` shows what there is")
	}
	for _, name := range netboot.Candidates(class) {
		if err := os.Remove(filepath.Join(s.imports, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete a boot loader: %w", err)
		}
	}
	_ = s.look() // its errors are of other files
	return nil
}
