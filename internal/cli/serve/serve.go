package serve

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/bootloader"
	"pando/internal/cmdenv"
	"pando/internal/dhcp"
	"pando/internal/exitcode"
	"pando/internal/hostcheck"
	"pando/internal/output"
	"pando/internal/server"
	"pando/internal/server/access"
	"pando/internal/server/logs"
	"pando/internal/store/s3"
	"pando/internal/storeflags"
)

// serveFlags are the flags of `up` and `serve`.
type serveFlags struct {
	interfaces          []string
	dhcp                string // own, proxy, off; "": `up` decides by what it finds, `serve` uses proxy
	addresses           string // FIRST-LAST, for own
	routers, dns        []string
	domain              string
	http, control, tftp string
	bootFiles, agent    string
	servers             []string
	uplink              *output.Quantity
	rebootAfter         time.Duration
	leaseTime           time.Duration
	store               storeflags.Flags
	verbose, noProbe    bool
	dashboard           string
	dashboardOpen       bool
	metricsOpen         bool
	dashboardCert       string
	dashboardKey        string
	dashboardName       string
	openid              openidFlags
	logFormat           string
	netconsole          string
	logs                string
	logsSize, logsNode  *output.Quantity
	apiRate             int
}

func (f *serveFlags) add(c *cobra.Command, dhcpHelp string) {
	fl := c.Flags()
	fl.StringSliceVar(&f.interfaces, "interface", nil, "network interface that nodes are on; several with commas")
	fl.StringVar(&f.dhcp, "dhcp", "", dhcpHelp)
	fl.StringVar(
		&f.addresses,
		"range",
		"",
		"addresses to give out as own DHCP server, FIRST-LAST (default: proposed from the interface's subnet)",
	)
	fl.StringSliceVar(
		&f.routers,
		"router",
		nil,
		"default gateway told to nodes (default: this machine's, where it is on that subnet)",
	)
	fl.StringSliceVar(&f.dns, "dns", nil, "name servers told to nodes (default: this machine's)")
	fl.StringVar(&f.domain, "domain", "", "domain told to nodes")
	fl.DurationVar(&f.leaseTime, "lease-time", dhcp.DefaultLeaseTime,
		"how long a lease is good; that of a machine that is no node yet for 10 minutes at most")
	fl.StringVar(&f.http, "http", server.DefaultData, "address of the image port: boot files and images")
	fl.StringVar(&f.control, "control", server.DefaultControl, "address of the control port: API, and what nodes "+
		"report")
	fl.StringVar(&f.tftp, "tftp", server.DefaultTFTP, "address of TFTP, or off")
	f.addPages(c)
	f.addLogs(c)
	fl.StringVar(&f.bootFiles, "boot-files", "", "directory of boot loaders (default: beside pando, and "+
		bootloader.PackageDir+")")
	fl.StringVar(&f.agent, "agent", "", "the pando-init binary (default: beside pando, in ../lib/pando or "+
		"in /usr/lib/pando)")
	fl.StringSliceVar(&f.servers, "also", nil, "base URLs of image ports of further servers that hold the same store")
	f.uplink = output.NewRate(0)
	fl.Var(
		f.uplink,
		"uplink",
		"what this machine can send, such as 10gbit: decides how many nodes load kernel and initramfs at the same "+
			"time (default: the speed of its interfaces, or 1gbit)",
	)
	f.store.Add(c)
	fl.DurationVar(
		&f.rebootAfter,
		"reboot-after",
		0,
		"reboot a node that is stuck in its boot this long, unless its group says otherwise; negative, such as "+
			"-1s: never (default 15m)",
	)
	fl.BoolVar(&f.noProbe, "no-probe", false, "do not probe an address by ARP before it is offered")
	fl.BoolVar(&f.verbose, "verbose", false, "log every request, and every stage of every boot")
	fl.StringVar(&f.logFormat, "log-format", "text", "lines of the log: text or json")
}

// addPages adds the flags of the dashboard.
func (f *serveFlags) addPages(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(
		&f.dashboard,
		"dashboard",
		server.DefaultDashboard,
		"address of the pages for browsers, or off; without a certificate a loopback one",
	)
	fl.BoolVar(
		&f.dashboardOpen,
		"dashboard-open",
		false,
		"let everybody on this machine use the dashboard without a login",
	)
	fl.BoolVar(
		&f.metricsOpen,
		"metrics-open",
		false,
		"let everybody on this machine read /metrics and /v1/sd at the dashboard's address without a token",
	)
	fl.StringVar(
		&f.dashboardCert,
		"dashboard-cert",
		"",
		"serve the pages by TLS: own, for a certificate of this site's own authority, or a file in PEM",
	)
	fl.StringVar(&f.dashboardKey, "dashboard-key", "", "file of the certificate's key")
	fl.StringVar(
		&f.dashboardName,
		"dashboard-name",
		"",
		"name of this server in browsers, for its own certificate (default: its host name and addresses)",
	)
	f.openid.add(fl)
}

// addLogs adds the flags for nodes' logs, metrics and the API.
func (f *serveFlags) addLogs(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(
		&f.netconsole,
		"netconsole",
		"off",
		"UDP address, such as :6666, where the nodes' kernels tell what they say, a panic above all; or off",
	)
	f.logsSize, f.logsNode = output.NewSize(0), output.NewSize(0)
	fl.StringVar(
		&f.logs,
		"logs",
		logs.Auto,
		"keep the journals of nodes, which send them by systemd-journal-upload: on, off, or auto for on where "+
			"systemd-journal-remote is installed here",
	)
	fl.Var(f.logsSize, "logs-size", "disk for the journals of all nodes (default 10GiB)")
	fl.Var(f.logsNode, "logs-node-size", "and for those of one node (default 256MiB)")
	fl.IntVar(
		&f.apiRate,
		"api-rate",
		access.DefaultRate,
		"requests a second that each token, each user, and each address without a login may make for long, ten "+
			"seconds' worth of them at once; negative: no bound. Nodes have none",
	)
}

// Command returns the command `serve`.
func Command(env *cmdenv.Env) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve, and do nothing else: what a service manager starts",
		Long: `Serve until stopped: DHCP or proxyDHCP, TFTP, images and boot files by HTTP, and the API. Asks nothing and looks at
nothing first; see ` + "`pando up`" + ` for that.`,
		Example: `  pando serve --interface eth1 --dhcp own --range 10.0.0.100-10.0.0.250
  pando serve --dhcp off`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.dhcp == "" {
				f.dhcp = string(dhcp.Proxy)
			}
			cfg, err := serverConfig(env, cmd.Context(), f, env.Err)
			if err != nil {
				return err
			}
			s, err := server.New(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			return s.Run(cmd.Context())
		},
	}
	f.add(c, "own: be the DHCP server; proxy: work beside the site's; off (default proxy)")
	return c
}

// log returns the server's log, which is written to w.
func (f *serveFlags) log(w io.Writer) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if f.verbose {
		o.Level = slog.LevelDebug
	}
	switch f.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, exitcode.Usagef("--log-format %s: use text or json", f.logFormat)
}

// serverConfig converts flags to the configuration of the server. Log lines are written to logs.
func serverConfig(env *cmdenv.Env, ctx context.Context, f serveFlags, logs io.Writer) (server.Config, error) {
	log, err := f.log(logs)
	if err != nil {
		return server.Config{}, err
	}
	if err := f.check(); err != nil {
		return server.Config{}, err
	}
	cfg := server.Config{
		Dir: env.Data, Release: env.Release, Log: log,
		Data: f.http, Control: f.control, TFTP: f.tftp, BootFiles: f.bootFiles, Agent: f.agent, Servers: f.servers,
		Netconsole: f.netconsole, Logs: f.logs, LogsSize: f.logsSize.N, LogsNodeSize: f.logsNode.N,
		Dashboard: f.dashboard, DashboardOpen: f.dashboardOpen, MetricsOpen: f.metricsOpen,
		DashboardCert: f.dashboardCert,
		DashboardKey:  f.dashboardKey, DashboardName: f.dashboardName, RebootAfter: f.rebootAfter, APIRate: f.apiRate,
		Uplink: f.uplink.N / 8,
	}
	if cfg.OpenID, err = f.openid.config(); err != nil {
		return cfg, err
	}
	if cfg.DHCP, err = f.dhcpConfig(); err != nil {
		return cfg, err
	}
	var b *s3.Bucket
	if cfg.Store, b, err = f.store.Open(ctx, env.Data); b != nil {
		cfg.Direct = b
	}
	return cfg, err
}

func (f *serveFlags) dhcpConfig() (dhcp.Config, error) {
	mode, err := f.mode()
	if err != nil {
		return dhcp.Config{}, err
	}
	c := dhcp.Config{Mode: mode, Interfaces: f.interfaces, NoProbe: f.noProbe}
	if mode == dhcp.Off {
		return c, nil
	}
	if len(c.Interfaces) == 0 {
		if c.Interfaces = hostcheck.UsableInterfaces(); len(c.Interfaces) != 1 {
			return c, exitcode.WithHint(exitcode.Usagef("DHCP: which interface are the nodes on?"),
				hostcheck.NameOne("say --interface with one of")+"; or --dhcp off")
		}
	}
	if mode == dhcp.Own {
		if len(c.Interfaces) > 1 {
			return c, f.severalOwn()
		}
		subnet, err := f.subnet(c.Interfaces[0])
		if err != nil {
			return c, err
		}
		c.Subnets = []dhcp.Subnet{subnet}
	}
	return c, nil
}

func (f *serveFlags) mode() (dhcp.Mode, error) {
	mode, err := dhcp.ParseMode(f.dhcp)
	if err != nil {
		return mode, exitcode.WithHint(exitcode.AsUsage(err), "--dhcp own, --dhcp proxy or --dhcp off")
	}
	return mode, nil
}

// subnet returns the subnet in which the server gives addresses with --dhcp own.
func (f *serveFlags) subnet(iface string) (dhcp.Subnet, error) {
	prefix, err := hostcheck.FirstPrefix(iface)
	if err != nil {
		return dhcp.Subnet{}, err
	}
	s := dhcp.Subnet{Prefix: prefix.Masked(), Domain: f.domain, LeaseTime: f.leaseTime}
	if s.First, s.Last, err = addressRange(f.addresses, prefix); err != nil {
		return s, err
	}
	if s.Routers, err = parseAddrs("router", f.routers); err != nil {
		return s, err
	}
	if s.DNS, err = parseAddrs("dns", f.dns); err != nil {
		return s, err
	}
	if err := checkMachines(s.Prefix, s.Routers, s.DNS); err != nil {
		return s, err
	}
	if own := prefix.Addr(); s.First == own && s.Last == own {
		return s, exitcode.Usagef("--range %s-%s is this server's own address: there is none to give out", own, own)
	}
	if f.routers == nil {
		s.Routers = gatewayIn(s.Prefix)
	}
	if f.dns == nil {
		s.DNS = nameServers("/etc/resolv.conf")
	}
	return s, nil
}

// addressRange parses FIRST-LAST, or proposes a range if the text is empty.
func addressRange(text string, prefix netip.Prefix) (first, last netip.Addr, err error) {
	if text == "" {
		first, last, err = dhcp.ProposeRange(prefix, prefix.Addr())
		return first, last, exitcode.WithHint(err, "say --range FIRST-LAST")
	}
	from, to, ok := strings.Cut(text, "-")
	if first, err = netip.ParseAddr(strings.TrimSpace(from)); err == nil && ok {
		last, err = netip.ParseAddr(strings.TrimSpace(to))
	}
	if err != nil || !ok {
		return first, last, exitcode.Usagef("range %q is not FIRST-LAST, such as 10.0.0.100-10.0.0.250", text)
	}
	return first, last, nil
}

func parseAddrs(flag string, texts []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, t := range texts {
		if t == "" {
			continue
		}
		addr, err := netip.ParseAddr(t)
		if err != nil {
			return nil, exitcode.Usagef("--%s: %w", flag, err)
		}
		if !addr.Is4() || addr.IsUnspecified() || addr.IsLoopback() || addr.IsMulticast() ||
			addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return nil, exitcode.Usagef("--%s %s: want the IPv4 address of one machine that nodes reach", flag, t)
		}
		out = append(out, addr)
	}
	return out, nil
}

// runServer starts a server in the background and calls work. It returns when the server or work ends.
func runServer(ctx context.Context, cfg server.Config, work func(context.Context, *server.Server) error) error {
	s, err := server.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Listen(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx); stop() }()
	if err := work(ctx, s); err != nil {
		stop()
		if failed := <-ended; failed != nil {
			return failed // the error of the server, which cancelled work
		}
		return err
	}
	return <-ended
}
