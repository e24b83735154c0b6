package initramfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// moduleTree is /lib/modules/<release> of a tree, read from depmod's files, or from the modules themselves if depmod
// never ran.
type moduleTree struct {
	dir     string // on the build machine
	release string
	modules map[string]*moduleEntry
	builtin map[string]bool // compiled into the kernel
	// keepXZ means that the kernel unpacks .ko.xz itself (CONFIG_MODULE_DECOMPRESS).
	keepXZ bool
}

// moduleEntry is one module file. Names have underscores; paths are relative to the tree's dir.
type moduleEntry struct {
	path    string
	deps    []string // direct and indirect, unordered
	softPre []string // names or aliases of the modules to load before ("softdep pre:")
	aliases []string
}

func openModules(ctx context.Context, root, release string) (*moduleTree, error) {
	if release == "" || strings.ContainsAny(release, "/\x00") || release == ".." {
		return nil, fmt.Errorf("kernel release %q is not a name", release)
	}
	t := &moduleTree{release: release, modules: map[string]*moduleEntry{}, builtin: map[string]bool{}}
	for _, d := range []string{"usr/lib/modules", "lib/modules"} {
		t.dir = filepath.Join(root, d, release)
		if _, err := os.Stat(t.dir); err == nil {
			break
		}
	}
	if _, err := os.Stat(t.dir); err != nil {
		return nil, fmt.Errorf("%w (is the kernel's package in the image?)", err)
	}
	t.keepXZ = kernelUnpacksXZ(root, release)
	if err := t.readBuiltin(); err != nil {
		return nil, err
	}
	err := t.readDepmod()
	if errors.Is(err, fs.ErrNotExist) {
		err = t.scan(ctx)
	}
	return t, err
}

// kernelUnpacksXZ reads the kernel's build configuration. Without one it returns false: unpacked modules always work.
func kernelUnpacksXZ(root, release string) bool {
	for _, p := range []string{"boot/config-" + release, "usr/lib/modules/" + release + "/config"} {
		data, err := os.ReadFile(filepath.Join(root, p))
		if err == nil {
			text := "\n" + string(data)
			return strings.Contains(text, "\nCONFIG_MODULE_DECOMPRESS=y") &&
				strings.Contains(text, "\nCONFIG_MODULE_COMPRESS_XZ=y")
		}
	}
	return false
}

// moduleName returns the kernel's name for a module file: without suffixes, with underscores instead of dashes.
func moduleName(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// needs returns the modules to load before name, deepest first, with soft dependencies.
func (t *moduleTree) needs(name string) []string {
	var order []string
	seen := map[string]bool{name: true}
	var visit func(string)
	visit = func(n string) {
		m := t.modules[n]
		pre := append(t.softNames(m.softPre), m.deps...)
		slices.Sort(pre)
		for _, d := range pre {
			if seen[d] || t.modules[d] == nil {
				continue
			}
			seen[d] = true
			visit(d)
			order = append(order, d)
		}
	}
	visit(name)
	return order
}

// softNames resolves soft dependencies, which may be aliases (three modules offer crc32c).
func (t *moduleTree) softNames(soft []string) []string {
	var names []string
	for _, s := range soft {
		s = strings.ReplaceAll(s, "-", "_")
		if t.modules[s] != nil {
			names = append(names, s)
			continue
		}
		for n, m := range t.modules {
			if slices.ContainsFunc(m.aliases, func(a string) bool { return strings.ReplaceAll(a, "-", "_") == s }) {
				names = append(names, n)
			}
		}
	}
	return names
}
