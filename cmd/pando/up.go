package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/build"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/server"
)

// upFlags are the flags of `up` beyond those of `serve`.
type upFlags struct {
	serveFlags
	recipe, image string
	noImage       bool
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Check, set up at the first start, and serve",
		Long: `Check this machine, look at the network, make keys and an image if there are none, and serve until stopped.

A DHCP server answers on the interface: Pando works beside it (proxyDHCP) and gives no addresses. None answers: it
asks whether to be one and proposes a range; --dhcp own, proxy or off decides without questions. If another DHCP
server appears later, Pando stands down, and says so.`,
		Example: `  pando up --interface eth1
  pando up --interface eth1 --dhcp own --range 10.0.0.100-10.0.0.250`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.up(cmd.Context(), f)
		},
	}
	f.add(c, "own: be the DHCP server; proxy: work beside the site's; off (default: look at the network, and ask)")
	fl := c.Flags()
	fl.StringVar(&f.image, "image", "debian", "name of the image that is built when there is none")
	fl.StringVar(&f.recipe, "recipe", "debian:bookworm", "its recipe")
	fl.BoolVar(&f.noImage, "no-image", false, "do not build an image when there is none")
	return c
}

func (a *app) up(ctx context.Context, f upFlags) error {
	if a.server != "" {
		return usagef("up: starts a server on this machine; it does not take --server")
	}
	if err := a.decideInterface(&f.serveFlags); err != nil {
		return err
	}
	if err := a.checksBeforeUp(ctx, f); err != nil {
		return err
	}
	if err := a.decideDHCP(ctx, &f.serveFlags); err != nil {
		return err
	}
	bar := newProgress(a.err, a.now)
	cfg, err := a.serverConfig(f.serveFlags, bar)
	if err != nil {
		return err
	}
	return runServer(ctx, cfg, func(ctx context.Context, s *server.Server) error {
		return a.firstRun(ctx, f, s, bar)
	})
}

// decideInterface takes the only interface there is, where none was named.
func (a *app) decideInterface(f *serveFlags) error {
	if len(f.interfaces) > 0 || f.dhcp == string(dhcp.Off) {
		return nil
	}
	names := usable()
	if len(names) != 1 {
		return withHint(usagef("up: which interface are the nodes on?"), "say --interface with one of "+strings.Join(interfaceNames(), ", "))
	}
	f.interfaces = names
	return nil
}

// checksBeforeUp stops at what would keep every node from booting and prints warnings.
func (a *app) checksBeforeUp(ctx context.Context, f upFlags) error {
	o := doctorOptions{bootFiles: f.bootFiles, agent: f.agent, data: a.data, proc: "/proc", quick: true}
	var findings []finding
	for _, k := range a.checks() {
		switch {
		case k.name == "interface":
			for _, name := range f.interfaces {
				o.iface = name
				findings = append(findings, k.look(ctx, o)...)
			}
		case f.dhcp == string(dhcp.Off) && k.name == "ports", k.name == "nics":
			// The server says itself which port it could not have.
		default:
			findings = append(findings, k.look(ctx, o)...)
		}
	}
	worst := fine
	for _, found := range findings {
		if rank(found.Level) >= rank(warning) {
			a.printFinding(found)
		}
		if rank(found.Level) > rank(worst) {
			worst = found.Level
		}
	}
	if worst == problem {
		a.printf("\nMend what is called a problem and start again; `pando doctor` looks again.\n")
		return &exitError{exitProblem}
	}
	return ctx.Err()
}

// decideDHCP looks at the network, unless told what to do.
func (a *app) decideDHCP(ctx context.Context, f *serveFlags) error {
	if f.dhcp == string(dhcp.Off) {
		return nil
	}
	var others []dhcp.Found
	for _, name := range f.interfaces {
		a.printf("Looking for DHCP servers on %s ...\n", name)
		seen, err := dhcp.Look(ctx, name, lookTime)
		if err != nil {
			return err
		}
		others = append(others, seen...)
	}
	servers, proxies := split(others)
	if len(proxies) > 0 {
		a.printf("WARNING: another network boot server answers: %s. Firmware takes whichever answers first; stop it.\n", strings.Join(proxies, " "))
	}
	switch {
	case f.dhcp == string(dhcp.Own) && len(servers) > 0:
		a.printf("WARNING: DHCP server %s answers already. Two servers would fight, so Pando will stand down and work beside it.\n", strings.Join(servers, " "))
		return nil
	case f.dhcp != "":
		return nil
	case len(servers) > 0:
		a.printf("DHCP server %s answers: Pando works beside it and gives no addresses.\n", strings.Join(servers, " "))
		f.dhcp = string(dhcp.Proxy)
		return nil
	}
	return a.askDHCP(f, f.interfaces[0])
}

// askDHCP asks whether to be the network's DHCP server: nothing is given out without somebody having said so.
func (a *app) askDHCP(f *serveFlags, name string) error {
	prefix, err := firstPrefix(name)
	if err != nil {
		return err
	}
	first, last, err := addressRange(f.addresses, prefix)
	if err != nil {
		return err
	}
	in, ok := a.in.(*os.File)
	if !ok || terminal(in) == nil {
		return withHint(fmt.Errorf("no DHCP server answers on %s", name),
			fmt.Sprintf("to be one, which gives out %s-%s: --dhcp own; if there will be one: --dhcp proxy", first, last))
	}
	a.printf("No DHCP server answers on %s. Shall Pando be the one of %s and give out %s-%s? [y/N] ", name, prefix.Masked(), first, last)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return withHint(fmt.Errorf("no DHCP server on %s: machines would find nothing", name),
			"start one there and run `pando up` again, say another --range, or --dhcp proxy if there will be one")
	}
	f.dhcp = string(dhcp.Own)
	f.addresses = fmt.Sprintf("%s-%s", first, last)
	return nil
}

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
	recipe, err := build.LoadRecipe(f.recipe)
	if err != nil {
		return &usageError{err}
	}
	begin := a.now()
	r, err := runBuild(ctx, build.Options{Recipe: recipe, Store: s.Store(), Key: s.Keys().Site, Work: workDir(a.data), Builder: release}, bar)
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

// printNext says what is served and what to do next, in three lines.
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
	a.printf("  1. Let a machine boot from the network, and see it come:   pando watch\n")
	a.printf("  2. Let yourself in:  pando group set default --authorized-keys ~/.ssh/id_ed25519.pub\n")
	a.printf("  3. If one does not come up:  pando boot show NODE, and pando doctor\n")
	return nil
}
