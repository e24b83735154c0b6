package recipe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"pando/internal/command"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/workdir"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Paths of apt's package lists, in the tree and beside it.
const (
	aptPart  = "apt"               // a layer for commands that is not part of the tree
	ListsDir = "var/lib/apt/lists" // apt's lists of the packages in the archive
	aptLists = aptPart + "/" + ListsDir
	aptCache = "apt.cache" // apt's cache of the parsed lists
)

// makeAptLayer makes a layer with apt's package lists and with the settings of apt and dpkg during a build. Commands
// can then install packages without fetching the lists again.
func (l *layers) makeAptLayer() error {
	tree, top := l.File(baseTree), l.File(aptPart)
	for path, text := range map[string]string{
		ListsDir + "/x":               "",
		"etc/apt/apt.conf.d/00pando":  "APT::Install-Recommends \"false\";\nAPT::Sandbox::User \"root\";\n",
		"etc/dpkg/dpkg.cfg.d/00pando": "force-unsafe-io\n",
	} {
		dir := filepath.Dir(path)
		if !systree.Exists(filepath.Join(tree, dir)) {
			continue // not a Debian tree
		}
		if err := makeDirsLike(tree, top, dir); err != nil {
			return fmt.Errorf("layer for commands: %w", err)
		}
		if text == "" {
			continue
		}
		file := filepath.Join(top, path)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Chtimes(file, time.Unix(0, 0), time.Unix(0, 0)); err != nil { // fixed: no step depends on it
			return err
		}
	}
	return l.ageAptLayer()
}

// ageAptLayer gives the directories of the layer the times of those in the layer below.
func (l *layers) ageAptLayer() error {
	tree, top := l.File(baseTree), l.File(aptPart)
	if err := makeDirsLike(tree, top, ""); err != nil {
		return err
	}
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := os.Lstat(tree + strings.TrimPrefix(path, top))
		if errors.Is(err, fs.ErrNotExist) {
			return fs.SkipDir // apt's own directories
		}
		if err != nil {
			return err
		}
		return os.Chtimes(path, info.ModTime(), info.ModTime())
	})
}

// makeDirsLike makes a directory below top with its parents; owners and modes are those below tree.
func makeDirsLike(tree, top, path string) error {
	dirs := []string{""}
	for i := range path {
		if path[i] == '/' {
			dirs = append(dirs, path[:i])
		}
	}
	for _, dir := range append(dirs, path) {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(tree, dir), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return errors.Join(err, fmt.Errorf("/%s is not a directory", dir))
		}
		to := filepath.Join(top, dir)
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		if err := errors.Join(os.Chown(to, int(st.Uid), int(st.Gid)), unix.Chmod(to, st.Mode&0o7777)); err != nil {
			return err
		}
	}
	return nil
}

// current reports whether the archive has no newer packages than a base. apt fetches changed lists and compares them.
// If the archive cannot be reached, a base counts as current until it is MaxAge old.
func (b *Maker) current(ctx context.Context, made workdir.Stamp) bool {
	newer, err := b.newer(ctx)
	if ctx.Err() != nil {
		return true // the next step reports the error
	}
	if err != nil {
		young := b.Now().Sub(made.Made) < b.MaxAge
		if young {
			b.Progress(
				steps.Progress{
					Note: fmt.Sprintf("the archive does not say whether it has newer packages (%.200s)", oneLine(err)),
				},
			)
		}
		return young
	}
	if len(newer) > 0 {
		b.Progress(
			steps.Progress{
				Note: fmt.Sprintf("installing again, for newer packages: %.200s", strings.Join(newer, " ")),
			},
		)
	}
	return len(newer) == 0
}

func oneLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// newer lists the packages of the base that the archive has in another version, and the packages that this upgrade
// would add or remove.
func (b *Maker) newer(ctx context.Context) (names []string, err error) {
	l := b.layers
	if !systree.Exists(l.File(baseTree)+"/etc/apt") || !systree.Exists(l.File(aptLists)) {
		return nil, errors.New("the base has no lists")
	}
	if err := os.MkdirAll(filepath.Join(l.File(aptLists), "partial"), 0o700); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.File(aptCache), 0o700); err != nil {
		return nil, err
	}
	args := []string{"apt-get", "-q"}
	for _, o := range []string{"Dir=" + l.File(baseTree), "Dir::State::lists=" + l.File(aptLists),
		"Dir::Cache=" + l.File(aptCache),
		"Dir::State::status=" + l.File(baseTree) + "/var/lib/dpkg/status", "APT::Architecture=" + b.Recipe.Architecture,
		"APT::Architectures=" + b.Recipe.Architecture, "APT::Sandbox::User=root", "APT::Update::Error-Mode=any",
		"APT::Get::List-Cleanup=false", "Debug::NoLocking=true",
		"Acquire::Languages=none", "APT::Install-Recommends=false"} {
		args = append(args, "-o", o)
	}
	const hint = "install apt"
	update := command.Command{
		Args: append(args, "update"),
		Hint: hint,
		Each: func(line string) { b.Progress(steps.Progress{Note: line}) },
	}
	if err := update.Run(ctx); err != nil {
		return nil, err
	}
	// Both commands only simulate and write nothing.
	check := command.Command{Args: append(args, "--simulate", "full-upgrade"), Hint: hint, Each: func(line string) {
		if f := strings.Fields(line); len(f) > 1 && (f[0] == "Inst" || f[0] == "Remv") {
			names = append(names, f[1])
		}
	}}
	return names, check.Run(ctx)
}

// listsDigest identifies the content of the archive's lists: the release files contain the digests of all other
// files.
func listsDigest(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*Release"))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d %s", filepath.Base(f), len(data), data)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
