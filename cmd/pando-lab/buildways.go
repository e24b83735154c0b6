package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"pando/internal/build"
	"pando/internal/identity"
	"pando/internal/store"
)

// pandoWay is the name of Pando's way.
const pandoWay = "pando"

// buildWay makes something of a tree, in a directory of its own, durable when it ends.
type buildWay struct {
	name    string
	command func(tree, dir string) []string
	written func(dir string, said []byte) (int64, error)
}

func buildWays() []buildWay {
	file := func(name string) func(string, []byte) (int64, error) {
		return func(dir string, _ []byte) (int64, error) {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				return 0, err
			}
			return info.Size(), nil
		}
	}
	shell := func(script string) func(tree, dir string) []string {
		return func(tree, dir string) []string {
			return []string{"sh", "-c", script + ` && sync "$2"/out`, "sh", tree, dir}
		}
	}
	return []buildWay{
		{pandoWay, func(tree, dir string) []string { return []string{"/proc/self/exe", "build-once", tree, dir} }, pandoWrote},
		{"mksquashfs -comp zstd", shell(`mksquashfs "$1" "$2"/out -comp zstd -noappend -no-progress -quiet`), file("out")},
		{"tar | gzip", shell(`tar -C "$1" -cf - . | gzip > "$2"/out`), file("out")},
		{"tar | zstd -3 -T0", shell(`tar -C "$1" -cf - . | zstd -q -3 -T0 > "$2"/out`), file("out")},
	}
}

// pandoWrote reads what the child process said.
func pandoWrote(_ string, said []byte) (n int64, err error) {
	err = json.Unmarshal(said, &n)
	return n, err
}

// run measures one run: a child process, with all that it starts.
func (b *buildBench) run(ctx context.Context, way buildWay, dir string, again bool) (buildRun, error) {
	args := way.command(b.tree, dir)
	if args[0] == "/proc/self/exe" {
		self, err := os.Executable()
		if err != nil {
			return buildRun{}, err
		}
		args[0] = self
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stderr = b.err
	begin := time.Now()
	said, err := c.Output()
	took := time.Since(begin)
	if err != nil {
		return buildRun{}, err
	}
	usage := c.ProcessState.SysUsage().(*syscall.Rusage)
	r := buildRun{Way: way.name, Again: again, Wall: took, CPU: c.ProcessState.UserTime() + c.ProcessState.SystemTime(), Memory: usage.Maxrss * 1024}
	r.Bytes, err = way.written(dir, said)
	return r, err
}

// buildOnce is the child process of Pando's way: it builds, stores and publishes a version, and prints how many bytes of
// objects are new.
func buildOnce(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 2 {
		return errors.New("build-once TREE DIR")
	}
	l := &lab{out: stdout, err: stderr}
	r, err := l.builder(ctx, args[1], func(o *build.Options) { o.Recipe, o.FromDir = nil, args[0] })
	if err != nil {
		return err
	}
	for _, step := range build.Steps() {
		fmt.Fprintf(stderr, "  %-8s %6.1f s\n", step, r.Elapsed[step].Seconds())
	}
	_, err = fmt.Fprintln(stdout, r.NewBytes)
	return err
}

// builder builds a version with keys and store below a directory, and no server.
func (l *lab) builder(ctx context.Context, work string, change func(*build.Options)) (build.Result, error) {
	keys, err := identity.Open(filepath.Join(work, "keys"))
	if err != nil {
		return build.Result{}, err
	}
	dir, err := store.OpenDir(filepath.Join(work, "store"))
	if err != nil {
		return build.Result{}, err
	}
	o := build.Options{Store: dir, Keys: keys.Ring.Signers(), Work: filepath.Join(work, "work")}
	if l.recipe != "" {
		if o.Recipe, err = build.LoadRecipe(l.recipe); err != nil {
			return build.Result{}, err
		}
	}
	change(&o)
	return build.Image(ctx, o)
}

// weigh adds up the files of a tree, and reads them.
func weigh(tree string) (bytes, files int64, err error) {
	err = filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		files++
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(io.Discard, f)
		bytes += n
		return err
	})
	return bytes, files, err
}
