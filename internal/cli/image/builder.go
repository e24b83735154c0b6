package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/build/source"
	"pando/internal/buildrun"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/mount"
	"pando/internal/output"
	"pando/internal/storeflags"
	"pando/internal/terminal"
)

// builder builds versions on the server's machine and registers them with the server.
type builder struct {
	env     *cmdenv.Env
	name    string   // of the image
	tags    []string // tags that move to the new version, besides latest
	release bool     // move the tags also if running nodes get the version by them
	client  *api.Client
	options build.Options // where the version is stored, and which keys sign it
	begin   time.Time
}

// privateMounts gives this process its own mount namespace if the build has to mount its source.
func privateMounts(env *cmdenv.Env, opt build.Options) error {
	_, disk := opt.Source.(source.Disk)
	if !disk && opt.Recipe == nil && opt.KernelFrom == nil || env.Server != "" ||
		os.Geteuid() != 0 { // without root or mount rights a later check returns the error
		return nil
	}
	return mount.Private()
}

// openBuilder checks the names and the server before the build, so that a build of several minutes does not fail at its
// end.
func openBuilder(env *cmdenv.Env, ctx context.Context, name string, tags []string) (*builder, error) {
	if env.Server != "" {
		return nil, exitcode.WithHint(exitcode.Usagef("it works on the machine of the server, not through "+
			"--server"), "run it there")
	}
	for _, t := range append([]string{name}, tags...) {
		if err := fleet.ValidName("image", t); err != nil {
			return nil, exitcode.AsUsage(err)
		}
	}
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	b := &builder{env: env, name: name, tags: tags, client: c, begin: env.Now()}
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
	keys, err := identity.Open(filepath.Join(b.env.Data, "keys"))
	if err != nil {
		return err
	}
	dir, err := storeflags.OpenDir(ctx, b.env.Data)
	if err != nil {
		return err
	}
	b.options = build.Options{
		Store:   dir,
		Keys:    keys.Ring.Signers(),
		Work:    buildrun.WorkDir(b.env.Data),
		Builder: b.env.Release,
	}
	return nil
}

func (b *builder) close() { b.client.Close() }

// sameArchitecture refuses a build for another architecture than the image's; the server would refuse it after the
// build.
func (b *builder) sameArchitecture(ctx context.Context, architecture string) error {
	img, err := b.client.Image(ctx, b.name)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.NotFound {
		return nil
	}
	for _, v := range img.Versions {
		if v.Architecture != "" && v.Architecture != architecture {
			return exitcode.WithHint(
				exitcode.Usagef("image %s is for %s, and this would be for %s", b.name, v.Architecture, architecture),
				"give it a name of its own: pando image build "+b.name+"-"+architecture,
			)
		}
	}
	return err
}

// run runs a build and shows its progress.
func (b *builder) run(all []terminal.Step, do func(build.Options) (build.Result, error)) (build.Result, error) {
	out := b.env.Out
	if b.env.JSON {
		out = b.env.Err
	}
	p := terminal.NewProgress(out, b.env.Now, all)
	opt := b.options
	opt.Progress = p.Show
	r, err := do(opt)
	p.End(err == nil)
	return r, err
}

// publish registers a version with the server and moves the tags.
func (b *builder) publish(ctx context.Context, r build.Result) error {
	tags := append([]string{fleet.LatestTag}, b.tags...)
	img, err := b.client.AddVersion(ctx, b.name, api.VersionAdd{Version: r.Version, Tags: tags, Release: b.release})
	if err != nil {
		return err
	}
	if b.env.JSON {
		img.Versions = slices.DeleteFunc(img.Versions, func(v api.Version) bool { return v.Digest != r.Version })
		return output.JSON(b.env.Out, img)
	}
	buildrun.PrintResult(b.env.Out, b.name, r, b.env.Now().Sub(b.begin))
	if r.Manifest.Extends != nil {
		for _, tag := range img.TagsKept {
			b.env.Printf("%s:%s stays as it was, since nodes have it; "+
				"this version is theirs by: pando image tag %s@%s %s\n",
				b.name, tag, b.name, r.Version.Short(), tag)
		}
		return nil
	}
	return b.sayNext(ctx, r.Version)
}

// sayNext prints which groups will boot the new version, and how to roll it out to others.
func (b *builder) sayNext(ctx context.Context, v fleet.Digest) error {
	groups, err := b.client.Groups(ctx)
	if err != nil {
		return err
	}
	var follow, others []string
	for _, g := range groups {
		name, _, _ := strings.Cut(string(g.Image), "@")
		switch {
		case g.Desired == v && g.Follow:
			follow = append(follow, fmt.Sprintf("group %s follows %s: the next boot of its %d nodes gets this "+
				"version", g.Name, g.Image, g.Nodes))
		case g.Desired != v && !g.Follow && name == b.name:
			others = append(others, g.Name)
		}
	}
	for _, f := range follow {
		b.env.Printf("%s\n", f)
	}
	if len(others) > 0 {
		b.env.Printf("next: try it on one node:         pando node set NODE --image %s, and reboot it\n", b.name)
		b.env.Printf("      then bring the group to it:  pando rollout start @%s --image %s\n", others[0], b.name)
	} else if len(follow) == 0 {
		b.env.Printf("next: let a group boot it:  pando group set GROUP --image %s\n", b.name)
	}
	return nil
}
