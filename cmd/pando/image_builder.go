package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/build/source"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/mount"
)

// builder makes versions on the machine of the server, and makes them known there.
type builder struct {
	app     *app
	name    string   // of the image
	tags    []string // that move to the new version, besides latest
	client  *api.Client
	options build.Options // where a version goes, and who signs it
	begin   time.Time
}

// privateMounts gives this process mounts of its own, if what it builds from is mounted.
func (a *app) privateMounts(opt build.Options) error {
	_, disk := opt.Source.(source.Disk)
	if !disk && opt.Recipe == nil && opt.KernelFrom == nil || a.server != "" ||
		os.Geteuid() != 0 { // the last two are told why not, later
		return nil
	}
	return mount.Private()
}

// openBuilder checks what can be checked before the minutes that a build takes: names, and that the server answers.
func (a *app) openBuilder(ctx context.Context, name string, tags []string) (*builder, error) {
	if a.server != "" {
		return nil, withHint(usagef("it works on the machine of the server, not through --server"), "run it there")
	}
	for _, t := range append([]string{name}, tags...) {
		if err := fleet.ValidName("image", t); err != nil {
			return nil, &usageError{err}
		}
	}
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	b := &builder{app: a, name: name, tags: tags, client: c, begin: a.now()}
	if err := b.open(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return b, nil
}

func (b *builder) open(ctx context.Context) error {
	if _, err := b.client.Keys(ctx); err != nil {
		return err
	}
	keys, err := identity.Open(filepath.Join(b.app.data, "keys"))
	if err != nil {
		return err
	}
	dir, err := openStoreDir(ctx, b.app.data)
	if err != nil {
		return err
	}
	b.options = build.Options{Store: dir, Keys: keys.Ring.Signers(), Work: workDir(b.app.data), Builder: release}
	return nil
}

func (b *builder) close() { b.client.Close() }

// sameArchitecture refuses what the server will refuse, before the minutes that a build takes.
func (b *builder) sameArchitecture(ctx context.Context, architecture string) error {
	img, err := b.client.Image(ctx, b.name)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.NotFound {
		return nil
	}
	for _, v := range img.Versions {
		if v.Architecture != "" && v.Architecture != architecture {
			return withHint(
				usagef("image %s is for %s, and this would be for %s", b.name, v.Architecture, architecture),
				"give it a name of its own: pando image build "+b.name+"-"+architecture,
			)
		}
	}
	return err
}

// run does it, with progress on the screen.
func (b *builder) run(do func(build.Options) (build.Result, error)) (build.Result, error) {
	out := b.app.out
	if b.app.json {
		out = b.app.err
	}
	p := newProgress(out, b.app.now)
	opt := b.options
	opt.Progress = p.show
	r, err := do(opt)
	p.end(err == nil)
	return r, err
}

// publish makes a version known and moves the tags.
func (b *builder) publish(ctx context.Context, r build.Result) error {
	tags := append([]string{fleet.LatestTag}, b.tags...)
	img, err := b.client.AddVersion(ctx, b.name, api.VersionAdd{Version: r.Version, Tags: tags})
	if err != nil {
		return err
	}
	if b.app.json {
		img.Versions = slices.DeleteFunc(img.Versions, func(v api.Version) bool { return v.Digest != r.Version })
		return writeJSON(b.app.out, img)
	}
	printResult(b.app.out, b.name, r, b.app.now().Sub(b.begin))
	return nil
}
