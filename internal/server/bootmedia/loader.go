package bootmedia

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"pando/internal/command"
	"pando/internal/hint"
	"pando/internal/media"
)

// grubDir is where Debian's packages grub-pc-bin and grub-efi-amd64-bin put GRUB.
const grubDir = "/usr/lib/grub"

// NeedsGRUB is the hint for a missing program or file.
const NeedsGRUB = "apt install ipxe grub-common grub-pc-bin grub-efi-amd64-bin"

// makeLoader makes the boot loader of a medium from the distribution's packages.
func makeLoader(ctx context.Context, bootFiles string) (l media.Loader, err error) {
	pc, efi := filepath.Join(grubDir, "i386-pc"), filepath.Join(grubDir, "x86_64-efi")
	var box []byte
	for _, f := range []struct {
		path string
		into *[]byte
	}{
		{filepath.Join(pc, "boot.img"), &l.BootCode},
		{filepath.Join(pc, "lnxboot.img"), &box},
		{filepath.Join(bootFiles, "ipxe.lkrn"), &l.IPXE},
		{filepath.Join(bootFiles, "ipxe.efi"), &l.IPXEEFI},
	} {
		if *f.into, err = os.ReadFile(f.path); errors.Is(err, fs.ErrNotExist) {
			return l, hint.With(fmt.Errorf("boot loader of a medium: %w", err), NeedsGRUB)
		}
		if err != nil {
			return l, fmt.Errorf("boot loader of a medium: %w", err)
		}
	}
	if l.Core, err = makeGRUB(ctx, "i386-pc", pc, media.BIOSModules, media.EarlyConfig); err != nil {
		return l, err
	}
	if l.EFI, err = makeGRUB(ctx, "x86_64-efi", efi, media.EFIModules, media.EarlyConfig); err != nil {
		return l, err
	}
	local, err := makeGRUB(ctx, "i386-pc", pc, media.BIOSModules, media.LocalEarlyConfig)
	l.Local = append(box, local...)
	return l, err
}

// makeGRUB makes one GRUB image with all modules that it needs inside.
func makeGRUB(ctx context.Context, format, dir, modules, config string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "pando-grub-")
	if err != nil {
		return nil, fmt.Errorf("boot loader of a medium: %w", err)
	}
	defer os.RemoveAll(tmp)
	early, out := filepath.Join(tmp, "early.cfg"), filepath.Join(tmp, "grub")
	if err := os.WriteFile(early, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("boot loader of a medium: %w", err)
	}
	args := append(
		[]string{"-O", format, "-d", dir, "-p", "/pando", "-c", early, "-o", out},
		strings.Fields(modules)...)
	output, err := exec.CommandContext(ctx, "grub-mkimage", args...).CombinedOutput()
	if err != nil {
		return nil, hint.With(fmt.Errorf("grub-mkimage: %w: %s", command.Ended(ctx, err),
			strings.TrimSpace(string(output))), NeedsGRUB)
	}
	return os.ReadFile(out)
}
