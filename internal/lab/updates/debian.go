package updates

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/bench"
	"pando/internal/image"
)

// base returns the tree of the point release. It is installed once and kept.
func (u *Updates) base(ctx context.Context) (string, error) {
	dir := filepath.Join(u.Dir, "update-base")
	if tree := bench.InstalledTree(dir); tree != "" {
		return tree, nil
	}
	if u.archive == "" {
		var err error
		if u.archive, err = ownArchive(ctx); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	recipe := filepath.Join(dir, "recipe.yaml")
	if err := os.WriteFile(recipe, fmt.Appendf(nil, updateRecipe, u.archive), 0o644); err != nil {
		return "", err
	}
	u.Say("Installing by the recipe\n%s", fmt.Sprintf(updateRecipe, u.archive))
	return bench.InstallTree(ctx, dir, recipe)
}

// ownArchive returns the archive from which this machine gets the release.
func ownArchive(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)",
		"Created-By: Packages").
		Output()
	if err == nil {
		for line := range strings.Lines(string(out)) {
			if uri, ok := strings.CutPrefix(line, updateSuite+" "); ok {
				return strings.TrimSpace(uri), nil
			}
		}
	}
	return "", fmt.Errorf("this machine's apt knows no archive of %s (name one with --archive)", updateSuite)
}

// updateTree is a tree in which packages are installed by this machine's apt, from the archives that it knows.
type updateTree struct {
	path  string
	cache string // directory of downloaded packages, which are kept
}

// aptScript runs apt on a tree: it reads this machine's lists and the tree's package database, and dpkg runs inside the
// tree. Services that packages would start are not started. The mounts end with the process.
const aptScript = `tree=$1 cache=$2; shift 2
mount --bind /dev "$tree/dev"; mount -t proc proc "$tree/proc"; mkdir -p "$cache/partial" "$tree/tmp/debs"; mount --bind "$cache" "$tree/tmp/debs"
printf '#!/bin/sh\nexit 101\n' > "$tree/usr/sbin/policy-rc.d"; chmod 755 "$tree/usr/sbin/policy-rc.d"
trap 'rm -f "$tree/usr/sbin/policy-rc.d"' EXIT
DEBIAN_FRONTEND=noninteractive apt-get -q -y -o APT::Sandbox::User=root -o Dir::State::status="$tree/var/lib/dpkg/status" \
  -o Dir::State::extended_states="$tree/var/lib/apt/extended_states" -o Dir::Log="$tree/tmp" -o DPkg::Chroot-Directory="$tree" \
  -o Dir::Cache::archives="$tree/tmp/debs" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Dpkg::Options::=--force-confold \
  -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0 --no-install-recommends "$@"
`

func (t updateTree) apt(ctx context.Context, args ...string) ([]byte, error) {
	args = append(
		[]string{"--mount", "--propagation", "private", "sh", "-euc", aptScript, "sh", t.path, t.cache},
		args...)
	out, err := exec.CommandContext(ctx, "unshare", args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("apt-get: %w\n%s", err, out)
	}
	return out, nil
}

// install installs packages. With only it upgrades installed packages and installs no others.
func (t updateTree) install(ctx context.Context, only bool, names ...string) error {
	args := []string{"install"}
	if only {
		args = append(args, "--only-upgrade")
	}
	if _, err := t.apt(ctx, append(args, names...)...); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(t.path, "tmp", "*"))
	if err != nil {
		return err
	}
	for _, f := range append(left, filepath.Join(t.path, "var/log/dpkg.log"),
		filepath.Join(t.path, "var/log/alternatives.log")) {
		if err := os.RemoveAll(f); err != nil {
			return err
		}
	}
	return nil
}

// packages returns the installed packages.
func (t updateTree) packages(ctx context.Context) (out []image.Package, err error) {
	text, err := exec.CommandContext(ctx, "dpkg-query", "--admindir="+filepath.Join(t.path, "var/lib/dpkg"), "-W",
		"-f", "${binary:Package} ${Version} ${source:Package}\n").Output()
	if err != nil {
		return nil, fmt.Errorf("dpkg-query: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 {
			name, _, _ := strings.Cut(f[0], ":")
			out = append(out, image.Package{Name: name, Version: f[1], Source: f[2]})
		}
	}
	return out, nil
}

// sourceUpdate is a source package with a newer version in Debian.
type sourceUpdate struct {
	source   string
	packages []string
}

// updates returns the newer packages by source package, without the kernel.
func (t updateTree) updates(ctx context.Context) (out []sourceUpdate, err error) {
	all, err := t.packages(ctx)
	if err != nil {
		return nil, err
	}
	text, err := t.apt(ctx, "--simulate", "upgrade")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "Inst" {
			continue
		}
		i := slices.IndexFunc(all, func(p image.Package) bool { return p.Name == f[1] })
		if i < 0 || strings.HasPrefix(all[i].Source, "linux") {
			continue
		}
		s := slices.IndexFunc(out, func(u sourceUpdate) bool { return u.source == all[i].Source })
		if s < 0 {
			out, s = append(out, sourceUpdate{source: all[i].Source}), len(out)
		}
		out[s].packages = append(out[s].packages, f[1])
	}
	slices.SortFunc(out, func(a, b sourceUpdate) int { return strings.Compare(a.source, b.source) })
	return out, nil
}

// kernel returns the release of the tree's kernel.
func (t updateTree) kernel() string {
	found, err := os.ReadDir(filepath.Join(t.path, "usr/lib/modules"))
	if err != nil || len(found) != 1 {
		return ""
	}
	return found[0].Name()
}
