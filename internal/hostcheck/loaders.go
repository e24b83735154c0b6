package hostcheck

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/bootloader"
	"pando/internal/netboot"
)

const installIPXE = "apt install ipxe, or name a directory with --boot-files"

// checkBootFiles looks at the boot loaders that a server of the data directory sends: which firmware has none, and
// which loaders leave kernel+initrd to the server.
func checkBootFiles(_ context.Context, o Options) []Finding {
	program, _ := os.Executable() // without it there is Debian's directory
	dirs := bootloader.Dirs(o.BootFiles, program)
	set, err := bootloader.Open(filepath.Join(o.Data, bootloader.ImportDir), dirs...)
	var out []Finding
	if err != nil {
		out = found(Warning, "look at these files; `pando loader import` replaces an imported one, `pando loader "+
			"delete` removes it", "not used: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	loaders := set.List()
	if len(loaders) == 0 {
		return append(found(Problem, installIPXE, "no boot loader in %s", strings.Join(dirs, ", ")), out...)
	}
	return append(slices.Concat(missingLoaders(loaders, dirs), out), weakLoaders(loaders)...)
}

// missingLoaders reports for which usual firmware there is a loader.
func missingLoaders(loaders []bootloader.Loader, dirs []string) (out []Finding) {
	var used []string
	for _, want := range []struct {
		class netboot.Class
		use   string
	}{{netboot.ClassBIOS, "BIOS machines"}, {netboot.ClassX64, "UEFI machines"}} {
		i := slices.IndexFunc(loaders, func(l bootloader.Loader) bool { return l.Class == want.class })
		if i < 0 {
			out = append(out, found(Warning, installIPXE, "no boot loader for %s in %s (%s)", want.use,
				strings.Join(dirs, ", "), strings.Join(netboot.Candidates(want.class), " or "))...)
			continue
		}
		used = append(used, filepath.Dir(loaders[i].Path))
	}
	if len(out) == 0 {
		out = found(Fine, "", "boot loaders for BIOS and UEFI in %s", strings.Join(slices.Compact(used), " and "))
	}
	return out
}

// weakLoaders reports loaders that cannot verify what other nodes send.
func weakLoaders(loaders []bootloader.Loader) (out []Finding) {
	for _, l := range loaders {
		fix := "`pando loader import` one that does: snponly.efi of iPXE 2.0 or later"
		switch {
		case l.Digests:
			continue
		case l.Class == netboot.ClassBIOS:
			fix = "boot machines by UEFI where they can: iPXE's builds for BIOS do not"
		case l.Class != netboot.ClassX64:
			fix = "`pando loader import` one that does: iPXE 2.0 or later for " + string(l.Class)
		}
		out = append(out, found(note, fix, "%s firmware: %s verifies no digests, so kernel+initrd come from the "+
			"server alone, about 17 MB for each node when many boot at once", l.Class, l.Name)...)
	}
	return out
}
