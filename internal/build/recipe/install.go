package recipe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"pando/internal/command"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// newTree is the name of a tree during its installation.
const newTree = "tree.new"

// Install makes the tree of a recipe with mmdebstrap. lists is a directory for apt's package lists, or "".
func (b *Maker) Install(ctx context.Context, r *Recipe, tree, lists string) error {
	for _, left := range []string{newTree, "files", "tmp"} {
		if err := workdir.RemoveTree(b.Work.File(left)); err != nil {
			return err
		}
	}
	if err := command.CanRun(b.Recipe.Architecture); err != nil {
		return err
	}
	if err := os.MkdirAll(b.Work.File("tmp"), 0o700); err != nil {
		return err
	}
	if lists != "" {
		if err := os.MkdirAll(lists, 0o700); err != nil {
			return err
		}
	}
	args, err := b.MmdebstrapArgs(r, lists)
	if err != nil {
		return err
	}
	lines := int64(0)
	cmd := command.Command{
		Args: args,
		Env: []string{
			"TMPDIR=" + b.Work.File("tmp"),
			"INITRD=No", // Debian's kernel hooks then make no initrd: Pando makes the initramfs
			"DEBIAN_FRONTEND=noninteractive",
		},
		Hint: "install mmdebstrap (Debian, Ubuntu: package mmdebstrap)",
		Each: func(line string) {
			lines++
			b.Log.Debug("mmdebstrap", "line", line)
			b.Progress(steps.Progress{Done: lines, Note: line})
		},
	}
	begin := time.Now().Truncate(time.Second)
	if err := cmd.Run(ctx); err != nil {
		return errors.Join(workdir.FullDisk(err, b.Work.Path), workdir.RemoveTree(b.Work.File(newTree)))
	}
	if err := tidy(b.Work.File(newTree)); err != nil {
		return err
	}
	if err := systree.Settle(b.Work.File(newTree), begin); err != nil {
		return err
	}
	if b.GiveKernel != nil {
		if b.Kernel, err = b.GiveKernel(ctx, b.Work.File(newTree)); err != nil {
			return err
		}
	}
	return os.Rename(b.Work.File(newTree), tree)
}

// MmdebstrapArgs returns mmdebstrap's command line. If the recipe has no mirrors, mmdebstrap uses Debian's, with
// updates and security.
func (b *Maker) MmdebstrapArgs(r *Recipe, lists string) ([]string, error) {
	components := r.Components
	if len(components) == 0 {
		components = []string{"main"}
	}
	args := []string{
		"mmdebstrap", "--mode=root", "--format=directory", "--variant=apt",
		"--architectures=" + r.Architecture,
		"--components=" + strings.Join(components, ","),
		"--include=" + strings.Join(slices.Compact(slices.Sorted(slices.Values(r.Packages))), ","),
		// dpkg's fsyncs protect a running system; an incomplete tree is discarded instead.
		"--dpkgopt=force-unsafe-io",
		// The user _apt cannot read the work directory.
		`--aptopt=APT::Sandbox::User "root"`,
	}
	repositories, err := b.repositoryHooks(r)
	if err != nil {
		return nil, err
	}
	hooks, err := b.fileHooks(r)
	if err != nil {
		return nil, err
	}
	args = append(append(args, repositories...), hooks...)
	for _, c := range append(r.settings(), r.Customize...) {
		args = append(args, `--customize-hook=chroot "$1" /bin/sh -euc `+shellQuote(c))
	}
	if lists != "" {
		args = append(
			args,
			`--customize-hook=if test -d "$1/var/lib/apt/lists"; then cp -a "$1/var/lib/apt/lists/." `+shellQuote(
				lists,
			)+"; fi",
		)
	}
	args = append(args, r.Suite, b.Work.File(newTree))
	return append(args, r.Mirrors...), nil
}

// fileHooks writes the recipe's files beside the tree and returns the mmdebstrap hooks that copy them into the tree.
func (b *Maker) fileHooks(r *Recipe) ([]string, error) {
	if err := os.MkdirAll(b.Work.File("files"), 0o700); err != nil {
		return nil, err
	}
	var hooks []string
	for i, f := range r.Files {
		from := filepath.Join(b.Work.File("files"), strconv.Itoa(i))
		if err := os.WriteFile(from, []byte(f.Content), 0o600); err != nil {
			return nil, err
		}
		mode := f.Mode
		if mode == "" {
			mode = "0644"
		}
		// The command runs inside the tree: a link in the tree must not lead out of it.
		hooks = append(hooks, fmt.Sprintf(
			`--customize-hook=chroot "$1" mkdir -p %s && chroot "$1" dd status=none of=%s < %s && chroot "$1" chmod %s %s`,
			path.Dir(f.Path),
			f.Path,
			shellQuote(from),
			mode,
			f.Path,
		))
	}
	return hooks, nil
}

// repositoryHooks writes the recipe's repositories beside the tree and returns the hooks that copy them into the tree
// before packages are looked up.
func (b *Maker) repositoryHooks(recipe *Recipe) ([]string, error) {
	if err := os.MkdirAll(b.Work.File("files"), 0o700); err != nil {
		return nil, err
	}
	var hooks []string
	for _, r := range recipe.Repositories {
		from := filepath.Join(b.Work.File("files"), r.Name+sourcesSuffix)
		if err := os.WriteFile(from, []byte(r.sources(recipe)), 0o600); err != nil {
			return nil, err
		}
		hooks = append(hooks, fmt.Sprintf(`--setup-hook=mkdir -p "$1%[1]s" && install -m 644 %[2]s "$1%[1]s/%[3]s"`,
			sourcesDir, shellQuote(from), r.Name+sourcesSuffix))
	}
	return hooks, nil
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Untidy lists the files that tidy removes.
func Untidy() []string {
	return []string{
		"etc/ssh/ssh_host_*", "etc/resolv.conf", "etc/hostname", "var/lib/systemd/random-seed",
		"var/lib/dbus/machine-id",
		"var/cache/ldconfig/aux-cache", "var/cache/apt/*.bin", "var/cache/apt/archives/*.deb", "var/lib/apt/lists/*",
		"etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "var/log/apt/*", "var/log/*.log",
		"boot/initrd*", "initrd.img*", "etc/*-",
	}
}

// tidy removes the leftovers of the installation, and files that must differ between nodes.
func tidy(tree string) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, glob := range Untidy() {
		names, err := fs.Glob(root.FS(), glob)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := root.RemoveAll(name); err != nil {
				return fmt.Errorf("tidy tree: %w", err)
			}
		}
	}
	// systemd takes an existing empty file as no first boot, and uses the ID that the node is given.
	if err := root.WriteFile("etc/machine-id", nil, 0o444); err != nil {
		return fmt.Errorf("tidy tree: %w", err)
	}
	return nil
}
