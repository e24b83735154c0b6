package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/build/recipe"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// image returns the version that the machines boot. A later run uses it again, unless the recipe or this build of Pando
// has changed.
func (l *Demo) image(ctx context.Context, c *api.Client) (fleet.Digest, error) {
	recipe, err := recipe.Load(l.recipe)
	if err != nil {
		return "", err
	}
	v, ok := newest(ctx, c)
	if ok && madeOf(l.DataDir(), v.Digest, recipe) {
		l.Say("Image:  %s:latest, %s, built %s from %s (make clean forgets it)", imageName, v.Digest.Short(),
			v.Built.Local().Format(time.DateTime), v.Recipe)
		return v.Digest, nil
	}
	if ok {
		l.Say("Image:  %s:latest is of another recipe or another builder", imageName)
	}
	l.Say(
		"Image:  `pando image build %s --recipe %s`: a Debian with kernel, systemd and ssh, from its packages",
		imageName,
		l.recipe,
	)
	if err := l.pando(ctx, "image", "build", imageName, "--recipe", l.recipe); err != nil {
		return "", fmt.Errorf("build the image: %w", err)
	}
	if v, ok = newest(ctx, c); !ok {
		return "", fmt.Errorf("the image was built, but the server knows no tag %s:%s", imageName, fleet.LatestTag)
	}
	return v.Digest, nil
}

// madeOf reports whether the version was built from the recipe by this Pando, newer packages aside. A version with
// unreadable provenance counts as not.
func madeOf(data string, version fleet.Digest, recipe *recipe.Recipe) bool {
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		return false
	}
	v, err := dir.GetVersion(version)
	if err != nil {
		return false
	}
	p, err := image.DecodeProvenance(v.Provenance)
	return err == nil && p.Source == build.Options{Recipe: recipe}.Asked()
}

// newest returns the version that the demo's image points at.
func newest(ctx context.Context, c *api.Client) (api.Version, bool) {
	i, err := c.Image(ctx, imageName)
	if err != nil {
		return api.Version{}, false
	}
	for _, v := range i.Versions {
		if v.Digest == i.Tags[fleet.LatestTag] {
			return v, true
		}
	}
	return api.Version{}, false
}

// pando runs a command of the operator on the demo's server.
func (l *Demo) pando(ctx context.Context, args ...string) error {
	c := l.Pando(ctx, args...)
	c.Stdout, c.Stderr = l.Out, l.Err
	return c.Run()
}

// watch shows the nodes until stop is called: a live table on a terminal, otherwise a line per event.
func (l *Demo) watch(p *play) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c := l.Pando(ctx, "watch")
	c.Stdout, c.Stderr = l.Out, l.Err
	if err := c.Start(); err != nil {
		cancel()
		l.Say("no live view: %v", err)
		return func() {}
	}
	return func() {
		cancel()
		_ = c.Wait() // the status is that of an interrupted program
	}
}
