package serve

import (
	"context"
	"strings"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/build/recipe"
	"pando/internal/buildrun"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/server"
	"pando/internal/terminal"
)

// firstRun builds an image for the default group if that has none, and prints what to do next.
func firstRun(env *cmdenv.Env, ctx context.Context, f upFlags, s *server.Server, bar *terminal.Progress) error {
	c := api.OverSocket(cmdenv.SocketPath(env.Data))
	defer c.Close()
	images, err := c.Images(ctx)
	if err != nil {
		return err
	}
	if len(images) == 0 && !f.noImage {
		if err := firstImage(env, ctx, f, s, c, bar); err != nil {
			return err
		}
	}
	if err := firstDesired(env, ctx, c); err != nil {
		return err
	}
	return printNext(env, ctx, f, c)
}

// firstImage builds the recipe with the server's keys and store. Machines that boot meanwhile are told to wait.
func firstImage(
	env *cmdenv.Env,
	ctx context.Context,
	f upFlags,
	s *server.Server,
	c *api.Client,
	bar *terminal.Progress,
) error {
	env.Printf("There is no image yet: building %s from recipe %s. This takes some minutes, once.\n", f.image, f.recipe)
	recipe, err := recipe.Load(f.recipe)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	begin := env.Now()
	r, err := buildrun.Image(
		ctx,
		build.Options{
			Recipe:  recipe,
			Store:   s.Store(),
			Keys:    s.Keys().Ring.Signers(),
			Work:    buildrun.WorkDir(env.Data),
			Builder: env.Release,
		},
		bar,
	)
	if err != nil {
		return buildrun.WithHint(err)
	}
	if _, err := c.AddVersion(ctx, f.image,
		api.VersionAdd{Version: r.Version, Tags: []string{fleet.LatestTag}}); err != nil {
		return err
	}
	buildrun.PrintResult(env.Out, f.image, r, env.Now().Sub(begin))
	return nil
}

// firstDesired makes the only image the default group's, if the group has none.
func firstDesired(env *cmdenv.Env, ctx context.Context, c *api.Client) error {
	g, err := c.Group(ctx, fleet.DefaultGroup)
	if err != nil || g.Image != "" {
		return err
	}
	images, err := c.Images(ctx)
	if err != nil || len(images) != 1 || images[0].Tags[fleet.LatestTag] == "" {
		return err
	}
	ref := fleet.Ref(images[0].Name + ":" + fleet.LatestTag)
	_, err = c.SetGroup(ctx, fleet.DefaultGroup, api.GroupSet{Image: &ref})
	return err
}

// printNext prints what the server offers and what to do next.
func printNext(env *cmdenv.Env, ctx context.Context, f upFlags, c *api.Client) error {
	st, err := c.Status(ctx)
	if err != nil {
		return err
	}
	image := "no image"
	for _, g := range st.Groups {
		if g.Name == fleet.DefaultGroup && g.Image != "" {
			image = fleet.RefText(g.Image, g.Follow)
		}
	}
	env.Printf("\nPando serves %s; DHCP: %s.\n", image, listing.DHCPText(st.DHCP))
	if image == "no image" {
		env.Printf("  Nothing boots yet. Build an image:   pando image build %s --recipe %s\n", f.image, f.recipe)
		env.Printf("  and let the nodes boot it:           pando group set default --image %s\n", f.image)
	}
	env.Printf("  1. Let a machine boot from the network, and see it come:   pando watch\n")
	env.Printf("  2. Let yourself in:  pando group set default --authorized-keys ~/.ssh/id_ed25519.pub\n")
	env.Printf("  3. If one does not come up:  pando boot show NODE, and pando doctor\n")
	if name, _, _ := strings.Cut(strings.TrimPrefix(image, "follows "), "@"); image != "no image" {
		name, _, _ = strings.Cut(name, ":")
		env.Printf("  4. Change the image: build a version, try it on one node, then bring the group to it:\n")
		env.Printf("       pando image build %s --recipe %s\n", name, f.recipe)
		env.Printf("       pando node set NODE --image %s    (and reboot it)\n", name)
		env.Printf("       pando rollout start @default --image %s\n", name)
	}
	return nil
}
