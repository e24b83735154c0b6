package serve

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/build/recipe"
	"pando/internal/buildrun"
	"pando/internal/cmdenv"
	"pando/internal/dhcp"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/hostcheck"
	"pando/internal/server"
	"pando/internal/terminal"
)

// upFlags are the flags of `up` beyond those of `serve`.
type upFlags struct {
	serveFlags
	recipe, image string
	noImage       bool
}

// UpCommand returns the command `up`.
func UpCommand(env *cmdenv.Env) *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Check, set up at the first start, and serve",
		Long: `Check this machine, look at the network, make keys and an image if there are none, and serve until stopped.

A DHCP server answers on the interface: Pando works beside it (proxyDHCP) and gives no addresses. None answers: it
asks whether to be one and proposes a range; --dhcp own, proxy or off decides without questions. If another DHCP
server appears later, Pando stops giving addresses, and says so.

At the first start it builds an image from a recipe (--image, --recipe; --no-image leaves that out), tags it latest and gives it to
the group default. If the image cannot be built, it ends and says why; started again, it goes on from where it can.

A service manager runs "pando serve" with what was decided here: --dhcp proxy, or --dhcp own --range FIRST-LAST. An own DHCP server
probes each address before it offers it. It is the DHCP server of one network only.`,
		Example: `  pando up --interface eth1
  pando up --interface eth1 --dhcp own --range 10.0.0.100-10.0.0.250`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(env, cmd.Context(), f)
		},
	}
	f.add(c, "own: be the DHCP server; proxy: work beside the site's; off (default: look at the network, and ask)")
	fl := c.Flags()
	fl.StringVar(&f.image, "image", "debian", "name of the image that is built when there is none")
	fl.StringVar(&f.recipe, "recipe", "debian:bookworm", "its recipe")
	fl.BoolVar(&f.noImage, "no-image", false, "do not build an image when there is none")
	return c
}

func up(env *cmdenv.Env, ctx context.Context, f upFlags) error {
	if env.Server != "" {
		return exitcode.Usagef("up: starts a server on this machine; it does not take --server")
	}
	if err := f.check(); err != nil {
		return err
	}
	if err := decideInterface(env, &f.serveFlags); err != nil {
		return err
	}
	if err := server.CheckFree(env.Data); err != nil { // a running server would answer the search for DHCP servers
		return err
	}
	if err := checksBeforeUp(env, ctx, f); err != nil {
		return err
	}
	if err := decideDHCP(env, ctx, &f.serveFlags); err != nil {
		return err
	}
	bar := terminal.NewProgress(env.Err, env.Now, buildrun.Steps())
	cfg, err := serverConfig(env, ctx, f.serveFlags, bar)
	if err != nil {
		return err
	}
	return runServer(ctx, cfg, func(ctx context.Context, s *server.Server) error {
		return firstRun(env, ctx, f, s, bar)
	})
}

// check refuses flags that would be wrong on every machine and network.
func (f *upFlags) check() error {
	if err := f.serveFlags.check(); err != nil {
		return err
	}
	if f.noImage {
		return nil
	}
	if err := fleet.ValidName("image", f.image); err != nil {
		return exitcode.AsUsage(err)
	}
	if _, err := recipe.Load(f.recipe); err != nil {
		return exitcode.AsUsage(err)
	}
	return nil
}

// decideInterface chooses the only interface of this machine, unless one is named.
func decideInterface(env *cmdenv.Env, f *serveFlags) error {
	if len(f.interfaces) > 0 || f.dhcp == string(dhcp.Off) {
		return nil
	}
	names := hostcheck.UsableInterfaces()
	if len(names) != 1 {
		return exitcode.WithHint(
			exitcode.Usagef("up: which interface are the nodes on?"),
			hostcheck.NameOne("say --interface with one of"),
		)
	}
	f.interfaces = names
	return nil
}

// checksBeforeUp prints warnings, and returns an error for problems that keep every node from booting.
func checksBeforeUp(env *cmdenv.Env, ctx context.Context, f upFlags) error {
	o := hostcheck.Options{BootFiles: f.bootFiles, Agent: f.agent, Data: env.Data, Proc: "/proc", Quick: true,
		Ports: f.ports()}
	var findings []hostcheck.Finding
	for _, k := range hostcheck.Checks(env) {
		switch {
		case k.Name == "interface" || k.Name == "firewall" && len(f.interfaces) > 0:
			for _, name := range f.interfaces {
				o.Interface = name
				findings = append(findings, k.Look(ctx, o)...)
			}
		case f.dhcp == string(dhcp.Off) && k.Name == "ports", k.Name == "nics":
			// The server itself reports a port that is in use, and without DHCP it needs few ports.
		default:
			findings = append(findings, k.Look(ctx, o)...)
		}
	}
	worst := hostcheck.Fine
	for _, found := range findings {
		if hostcheck.Rank(found.Level) >= hostcheck.Rank(hostcheck.Warning) {
			hostcheck.Print(env, found)
		}
		if hostcheck.Rank(found.Level) > hostcheck.Rank(worst) {
			worst = found.Level
		}
	}
	if worst == hostcheck.Problem {
		env.Printf("\nFix what is called a problem and start again; `pando doctor` looks again.\n")
		return exitcode.Silent(exitcode.Problem)
	}
	return ctx.Err()
}

// ports returns the ports on which nodes will reach the server.
func (f *serveFlags) ports() []api.Port {
	var out []api.Port
	add := func(network, address, use string) {
		host, port, _ := net.SplitHostPort(address) // check has refused invalid addresses
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 { // TFTP is off, or the port is chosen by the kernel
			return
		}
		p := api.Port{Net: network, Number: uint16(number), Use: use}
		if a, err := netip.ParseAddr(host); err == nil && !a.IsUnspecified() {
			p.Address = a
		}
		out = append(out, p)
	}
	if f.dhcp != string(dhcp.Off) {
		out = append(out, api.Port{Net: "udp", Number: dhcp.ServerPort, Use: "DHCP"},
			api.Port{Net: "udp", Number: dhcp.BootPort, Use: "proxyDHCP"})
	}
	add("udp", f.tftp, "TFTP")
	add("tcp", f.http, "boot files and images")
	add("tcp", f.control, "control port")
	return out
}

// decideDHCP chooses the DHCP mode by the DHCP servers that answer on the network, unless --dhcp is given.
func decideDHCP(env *cmdenv.Env, ctx context.Context, f *serveFlags) error {
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
		env.Printf("Looking for DHCP servers on %s ...\n", name)
		seen, err := dhcp.DiscoverServers(ctx, name, hostcheck.ListenTime)
		if err != nil {
			return err
		}
		others = append(others, seen...)
	}
	servers, proxies := hostcheck.SplitProxies(others)
	if len(proxies) > 0 {
		env.Printf(
			"WARNING: another network boot server answers: %s. Firmware takes whichever answers first; stop it.\n",
			strings.Join(proxies, " "),
		)
	}
	switch {
	case f.dhcp == string(dhcp.Own) && len(servers) > 0:
		env.Printf(
			"WARNING: DHCP server %s answers already. Two servers would fight, so Pando will stop giving "+
				"addresses and work "+
				"beside it.\n",
			strings.Join(servers, " "),
		)
		return nil
	case f.dhcp != "":
		return nil
	case len(servers) > 0:
		env.Printf("DHCP server %s answers: Pando works beside it and gives no "+
			"addresses.\n", strings.Join(servers, " "))
		f.dhcp = string(dhcp.Proxy)
		return nil
	}
	if len(f.interfaces) > 1 {
		return exitcode.WithHint(
			fmt.Errorf("no DHCP server answers on %s", strings.Join(f.interfaces, " and ")),
			"Pando is the DHCP server of one network: name one --interface; or, if there will be a server, --dhcp "+
				"proxy",
		)
	}
	return askDHCP(env, f, f.interfaces[0])
}

// askDHCP asks whether this machine should be the DHCP server of the network. It gives no addresses without a yes.
func askDHCP(env *cmdenv.Env, f *serveFlags, name string) error {
	prefix, err := hostcheck.FirstPrefix(name)
	if err != nil {
		return err
	}
	first, last, err := addressRange(f.addresses, prefix)
	if err != nil {
		return err
	}
	if err := f.checkOwn(); err != nil { // before the question, because a yes would be refused
		return err
	}
	in, ok := env.In.(*os.File)
	if !ok || terminal.Of(in) == nil {
		return exitcode.WithHint(
			fmt.Errorf("no DHCP server answers on %s", name),
			fmt.Sprintf(
				"to be one, which gives out %s-%s: --dhcp own; if there will be one: --dhcp proxy",
				first,
				last,
			),
		)
	}
	env.Printf(
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
		return exitcode.WithHint(fmt.Errorf("no DHCP server on %s: machines would find nothing", name),
			"start one there and run `pando up` again, say another --range, or --dhcp proxy if there will be one")
	}
	f.dhcp = string(dhcp.Own)
	f.addresses = fmt.Sprintf("%s-%s", first, last)
	return nil
}
