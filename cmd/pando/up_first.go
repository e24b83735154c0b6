package main

import (
	"context"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/build/recipe"
	"pando/internal/fleet"
	"pando/internal/server"
)

// firstRun makes an image and gives it to the default group, if there is none, and says what to do next.
func (a *app) firstRun(ctx context.Context, f upFlags, s *server.Server, bar *progress) error {
	c := api.OverSocket(socketPath(a.data))
	defer c.Close()
	images, err := c.Images(ctx)
	if err != nil {
		return err
	}
	if len(images) == 0 && !f.noImage {
		if err := a.firstImage(ctx, f, s, c, bar); err != nil {
			return err
		}
	}
	if err := a.firstDesired(ctx, c); err != nil {
		return err
	}
	return a.printNext(ctx, f, c)
}

// firstImage builds the recipe with the server's own keys and store. Machines that come meanwhile are told to wait.
func (a *app) firstImage(ctx context.Context, f upFlags, s *server.Server, c *api.Client, bar *progress) error {
	a.printf("There is no image yet: building %s from recipe %s. This takes some minutes, once.\n", f.image, f.recipe)
	recipe, err := recipe.Load(f.recipe)
	if err != nil {
		return &usageError{err}
	}
	begin := a.now()
	r, err := runBuild(
		ctx,
		build.Options{
			Recipe:  recipe,
			Store:   s.Store(),
			Keys:    s.Keys().Ring.Signers(),
			Work:    workDir(a.data),
			Builder: release,
		},
		bar,
	)
	if err != nil {
		return buildHint(err)
	}
	if _, err := c.AddVersion(ctx, f.image, api.VersionAdd{Version: r.Version, Tags: []string{fleet.LatestTag}}); err != nil {
		return err
	}
	printResult(a.out, f.image, r, a.now().Sub(begin))
	return nil
}

// firstDesired gives the default group the only image there is, if it wants none.
func (a *app) firstDesired(ctx context.Context, c *api.Client) error {
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

// printNext says what is served and what to do next.
func (a *app) printNext(ctx context.Context, f upFlags, c *api.Client) error {
	st, err := c.Status(ctx)
	if err != nil {
		return err
	}
	image := "no image"
	for _, g := range st.Groups {
		if g.Name == fleet.DefaultGroup && g.Image != "" {
			image = string(g.Image)
		}
	}
	a.printf("\nPando serves %s; DHCP: %s.\n", image, dhcpText(st.DHCP))
	if image == "no image" {
		a.printf("  Nothing boots yet. Build an image:   pando image build %s --recipe %s\n", f.image, f.recipe)
		a.printf("  and let the nodes boot it:           pando group set default --image %s\n", f.image)
	}
	a.printf("  1. Let a machine boot from the network, and see it come:   pando watch\n")
	a.printf("  2. Let yourself in:  pando group set default --authorized-keys ~/.ssh/id_ed25519.pub\n")
	a.printf("  3. If one does not come up:  pando boot show NODE, and pando doctor\n")
	return nil
}
