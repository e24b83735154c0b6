package kernel

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/image"
)

// FormatError means that the kernel of a tree cannot read the requested file system.
type FormatError struct {
	Kernel string
	Format string   // requested file system
	Can    []string // file systems that the kernel can read
}

func (e *FormatError) Error() string {
	can := "none of " + strings.Join(image.FileSystems(), ", ")
	if len(e.Can) > 0 {
		can = strings.Join(e.Can, ", ")
	}
	return fmt.Sprintf(
		"kernel %s cannot read %s; it can read %s: leave --format out, or install the package with its other modules",
		e.Kernel,
		e.Format,
		can,
	)
}

// kernelOption returns the kernel build option of a file system.
func kernelOption(kind string) string {
	if kind == image.Erofs {
		return "CONFIG_EROFS_FS"
	}
	return "CONFIG_SQUASHFS"
}

// FileSystems lists the file systems that the kernel of a tree can read, the preferred one first, and the evidence for
// each. A file system in a module counts if the module is there: some distributions have it in a separate package.
func FileSystems(tree, release string) (can, why []string) {
	config := kernelConfig(tree, release)
	builtin := moduleFile(tree, release, "modules.builtin")
	for _, kind := range image.FileSystems() {
		switch {
		case len(moduleGlob(tree, release, "kernel/fs/"+kind+"/"+kind+".ko*")) > 0:
			why = append(why, "has "+kind+" as a module")
		case config[kernelOption(kind)] == "y", strings.Contains(builtin, "/"+kind+".ko"):
			why = append(why, "has "+kind+" built in")
		default:
			why = append(why, "lacks "+kind)
			continue
		}
		can = append(can, kind)
	}
	return can, why
}

func moduleGlob(tree, release, pattern string) (found []string) {
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		names, _ := fs.Glob(os.DirFS(filepath.Join(tree, dir)), release+"/"+pattern) // unreadable is missing
		found = append(found, names...)
	}
	return found
}

func moduleFile(tree, release, name string) string {
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		if b, err := os.ReadFile(filepath.Join(tree, dir, release, name)); err == nil {
			return string(b)
		}
	}
	return ""
}

// kernelConfig reads the build options of a kernel; it returns an empty map for a tree without that file.
func kernelConfig(tree, release string) map[string]string {
	out := map[string]string{}
	for _, p := range []string{"boot/config-" + release, "usr/lib/modules/" + release + "/config"} {
		data, err := os.ReadFile(filepath.Join(tree, p))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if option, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok &&
				strings.HasPrefix(option, "CONFIG_") {
				out[option] = value
			}
		}
		break
	}
	return out
}
