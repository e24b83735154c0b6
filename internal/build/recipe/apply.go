package recipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"pando/internal/command"
	"pando/internal/fleet"
	"pando/internal/mount"
	"pando/internal/steps"
	"pando/internal/systree"
)

// Apply carries out a recipe in an existing tree.
func (b *Maker) Apply(ctx context.Context) error {
	r := b.Recipe
	for _, p := range r.Repositories {
		if err := b.putFile(ctx,
			File{Path: sourcesDir + "/" + p.Name + sourcesSuffix, Content: p.sources(r)}); err != nil {
			return fmt.Errorf("repositories: %s: %w", p.Name, err)
		}
	}
	if len(r.Packages) > 0 {
		if !systree.Exists(b.Root + "/usr/bin/apt-get") {
			return fmt.Errorf("packages: %s has no apt-get; install what it needs by commands (customize)", r.Base)
		}
		if err := b.inside(ctx, InstallPackages(r.Packages), nil); err != nil {
			return fmt.Errorf("packages: %w", err)
		}
	}
	for _, s := range r.steps() {
		if err := s.do(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// aptInstall installs packages with the options that mmdebstrap gets for a new tree (see MmdebstrapArgs).
const aptInstall = "apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 -o DPkg::Options::=--force-unsafe-io " +
	"-o APT::Sandbox::User=root install "

// putFile writes a file from inside the tree, so that no link leads out of it.
func (b *Maker) putFile(ctx context.Context, f File) error {
	mode := f.Mode
	if mode == "" {
		mode = "0644"
	}
	content, err := os.CreateTemp(b.Work.Path, "file")
	if err != nil {
		return err
	}
	defer os.Remove(content.Name())
	defer content.Close()
	if _, err := content.WriteString(f.Content); err != nil {
		return err
	}
	if _, err := content.Seek(0, 0); err != nil {
		return err
	}
	return b.inside(
		ctx,
		fmt.Sprintf("mkdir -p %s; cat > %s; chmod %s %s", path.Dir(f.Path), f.Path, mode, f.Path),
		content,
	)
}

// inside runs a script in the tree as root. Its error contains the end of the output.
func (b *Maker) inside(ctx context.Context, script string, stdin *os.File) error {
	return RunInside(
		ctx,
		b.Root,
		b.Work.File("tmp"),
		script,
		stdin,
		func(line string) { b.Progress(steps.Progress{Note: line}) },
	)
}

// InstallPackages returns a script that installs Debian packages in an existing tree.
func InstallPackages(names []string) string {
	return "apt-get -q update\n" + aptInstall + strings.Join(names, " ")
}

// RunInside runs a script in a tree as root, with the directory tmp as its /tmp. Its error contains the end of the
// output.
func RunInside(ctx context.Context, root, tmp, script string, stdin *os.File, each func(line string)) error {
	resolver, _ := os.ReadFile("/etc/resolv.conf") // this machine may not have the file
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o777|os.ModeSticky); err != nil {
		return err
	}
	out := &lineWriter{each: each}
	err := mount.Command{
		Root: root, Tmp: tmp, Resolver: resolver, Args: []string{"/bin/sh", "-euc", script}, Stdin: stdin,
		Stdout: out, Stderr: out,
		Env: append(
			proxies(),
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=/root",
			"LC_ALL=C.UTF-8",
			"TZ=UTC",
			"INITRD=No",
			"DEBIAN_FRONTEND=noninteractive",
		),
	}.Run(ctx)
	var exit *mount.ExitError
	if errors.As(err, &exit) {
		first, _, _ := strings.Cut(script, "\n")
		return &command.Error{
			Program: fmt.Sprintf("%.80s", first),
			Status:  fmt.Sprintf("exit status %d", exit.Code),
			Tail:    out.tail,
		}
	}
	return err
}

// proxies returns the environment variables with the proxy settings of this machine.
func proxies() (env []string) {
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// lineWriter passes its input on line by line, and keeps the last lines.
type lineWriter struct {
	each func(string)
	part []byte
	tail []string
}

// Write collects the output; it never fails.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.part = append(w.part, b...)
	for {
		i := bytes.IndexByte(w.part, '\n')
		if i < 0 {
			return len(b), nil
		}
		line := strings.TrimRight(string(w.part[:i]), " \r")
		if w.part = w.part[i+1:]; line == "" {
			continue
		}
		if w.tail = append(w.tail, line); len(w.tail) > command.TailLines {
			w.tail = w.tail[1:]
		}
		w.each(line)
	}
}

// BaseVersion returns the image version that a recipe begins with.
func (r *Recipe) BaseVersion() (fleet.Digest, error) {
	_, _, version, err := r.Base.Split()
	if err == nil && version == "" {
		err = fmt.Errorf("from: %s is an image without a version; append its digest (@sha256:...)", r.Base)
	}
	return version, err
}

// WithBase returns the recipe with its base resolved to a digest.
func (r *Recipe) WithBase(version fleet.Digest) *Recipe {
	name, _, _, _ := r.Base.Split() // it was checked when the recipe was read
	out := *r
	out.Base = fleet.Ref(name + "@" + string(version))
	return &out
}
