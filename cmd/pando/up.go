package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/build/recipe"
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
server appears later, Pando stands down, and says so.

If the image cannot be built, it ends and says why; started again, it goes on from where it can.`,
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
	if err := f.check(); err != nil {
		return err
	}
	if err := a.decideInterface(&f.serveFlags); err != nil {
		return err
	}
	if err := server.CheckFree(a.data); err != nil { // a look at the network would meet that server
		return err
	}
	if err := a.checksBeforeUp(ctx, f); err != nil {
		return err
	}
	if err := a.decideDHCP(ctx, &f.serveFlags); err != nil {
		return err
	}
	bar := newProgress(a.err, a.now)
	cfg, err := a.serverConfig(ctx, f.serveFlags, bar)
	if err != nil {
		return err
	}
	return runServer(ctx, cfg, func(ctx context.Context, s *server.Server) error {
		return a.firstRun(ctx, f, s, bar)
	})
}

// check refuses what makes no sense whatever this machine and its network are like.
func (f *upFlags) check() error {
	if err := f.serveFlags.check(); err != nil {
		return err
	}
	if f.noImage {
		return nil
	}
	if err := fleet.ValidName("image", f.image); err != nil {
		return &usageError{err}
	}
	if _, err := recipe.Load(f.recipe); err != nil {
		return &usageError{err}
	}
	return nil
}

// decideInterface takes the only interface there is, where none was named.
func (a *app) decideInterface(f *serveFlags) error {
	if len(f.interfaces) > 0 || f.dhcp == string(dhcp.Off) {
		return nil
	}
	names := usable()
	if len(names) != 1 {
		return withHint(
			usagef("up: which interface are the nodes on?"),
			"say --interface with one of "+strings.Join(interfaceNames(), ", "),
		)
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
	if f.dhcp == string(dhcp.Own) || f.addresses != "" {
		if err := f.checkOwn(); err != nil {
			return err
		}
	}
	var others []dhcp.Found
	for _, name := range f.interfaces {
		a.printf("Looking for DHCP servers on %s ...\n", name)
		seen, err := dhcp.DiscoverServers(ctx, name, lookTime)
		if err != nil {
			return err
		}
		others = append(others, seen...)
	}
	servers, proxies := split(others)
	if len(proxies) > 0 {
		a.printf(
			"WARNING: another network boot server answers: %s. Firmware takes whichever answers first; stop it.\n",
			strings.Join(proxies, " "),
		)
	}
	switch {
	case f.dhcp == string(dhcp.Own) && len(servers) > 0:
		a.printf(
			"WARNING: DHCP server %s answers already. Two servers would fight, so Pando will stand down and work "+
				"beside it.\n",
			strings.Join(servers, " "),
		)
		return nil
	case f.dhcp != "":
		return nil
	case len(servers) > 0:
		a.printf("DHCP server %s answers: Pando works beside it and gives no addresses.\n", strings.Join(servers, " "))
		f.dhcp = string(dhcp.Proxy)
		return nil
	}
	if len(f.interfaces) > 1 {
		return withHint(
			fmt.Errorf("no DHCP server answers on %s", strings.Join(f.interfaces, " and ")),
			"Pando is the DHCP server of one network: name one --interface; or, if there will be a server, --dhcp "+
				"proxy",
		)
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
	if err := f.checkOwn(); err != nil { // before a question whose answer would be refused
		return err
	}
	in, ok := a.in.(*os.File)
	if !ok || terminal(in) == nil {
		return withHint(
			fmt.Errorf("no DHCP server answers on %s", name),
			fmt.Sprintf(
				"to be one, which gives out %s-%s: --dhcp own; if there will be one: --dhcp proxy",
				first,
				last,
			),
		)
	}
	a.printf(
		"No DHCP server answers on %s. Shall Pando be the one of %s and give out %s-%s? [y/N] ",
		name,
		prefix.Masked(),
		first,
		last,
	)
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
