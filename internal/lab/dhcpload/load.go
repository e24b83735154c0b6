package dhcpload

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/bench"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// The servers' network. Its range has an address for each client.
const (
	serverNet  = "10.99.0.1/16"
	firstLease = "10.99.16.0"
	lastLease  = "10.99.79.255"
)

// linkName is the clients' interface.
const linkName = "perf0"

// Load measures DHCP servers.
type Load struct {
	bench.Place
	systems []string
	rates   []int
	clients int
	seconds int
}

// run is one measurement: one server at one rate.
type run struct {
	System string   `json:"system"`
	Rate   int      `json:"rate"` // exchanges a second that were begun
	Offers exchange `json:"offers"`
	Acks   exchange `json:"acks"`
}

// exchange has perfdhcp's figures of one half of an exchange.
type exchange struct {
	Sent  int     `json:"sent"`
	Drops int     `json:"drops"` // not answered within a second
	Mean  float64 `json:"mean"`  // milliseconds until the answer
	Most  float64 `json:"most"`
}

// systems are the servers in the order of the table.
var systems = []string{"pando", "pando without a probe", "dnsmasq without a probe", "kea"}

// New parses the arguments of `pando-lab dhcp`.
func New(args []string, stdout, stderr io.Writer) (*Load, error) {
	l := &Load{Place: bench.Place{Out: stdout, Err: stderr}, systems: slices.Clone(systems)}
	rates := "200,500,1000,1500,2000"
	f := flag.NewFlagSet("pando-lab dhcp", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&l.Dir, "dir", "build/dhcp", "where the result is written")
	f.StringVar(&rates, "rates", rates, "exchanges a second, with commas")
	f.IntVar(&l.clients, "clients", 5000, "how many clients there are; Pando knows them as nodes")
	f.IntVar(&l.seconds, "seconds", 10, "how long each rate is held")
	f.Func("systems", "what to measure, with commas, of "+strings.Join(systems, ", "), bench.ListOf(&l.systems))
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	err := l.Locate(f.Args())
	for _, text := range strings.Split(rates, ",") {
		n, e := strconv.Atoi(text)
		if e != nil || n <= 0 {
			err = errors.Join(err, fmt.Errorf("--rates: %q is no number of exchanges", text))
		}
		l.rates = append(l.rates, n)
	}
	for _, s := range l.systems {
		if !slices.Contains(systems, s) {
			err = errors.Join(err, fmt.Errorf("--systems: there is no %q", s))
		}
	}
	if l.clients < 1 || l.clients > 16384 || l.seconds < 1 {
		err = errors.Join(err, errors.New("--clients is 1 to 16384, --seconds at least 1"))
	}
	if err != nil {
		fmt.Fprintln(stderr, "pando-lab dhcp:", err)
	}
	return l, err
}

// Measure measures each server at each rate, and prints the table.
func (l *Load) Measure(ctx context.Context) error {
	var all []run
	for _, name := range l.systems {
		runs, err := l.measure(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, runs...)
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	raw := filepath.Join(l.Dir, "dhcp.json")
	if err := os.WriteFile(raw, append(b, '\n'), 0o644); err != nil {
		return err
	}
	l.Say("\n%s\nRaw data: %s", bench.Table(append([]bench.Row{heads}, rowsOf(all)...)), raw)
	return nil
}

var heads = bench.Row{"server", "exchanges a second", "DISCOVER lost", "OFFER after (mean, most)", "REQUEST lost",
	"ACK after (mean, most)"}

func rowsOf(all []run) (out []bench.Row) {
	for _, r := range all {
		row := bench.Row{r.System, fmt.Sprint(r.Rate)}
		for _, x := range []exchange{r.Offers, r.Acks} {
			share := 100 * float64(x.Drops) / float64(max(1, x.Sent))
			row = append(row, fmt.Sprintf("%d of %d = %.1f %%", x.Drops, x.Sent, share),
				fmt.Sprintf("%.0f, %.0f ms", x.Mean, x.Most))
		}
		out = append(out, row)
	}
	return out
}

// measure runs one server, and loads it at each rate.
func (l *Load) measure(ctx context.Context, name string) (out []run, err error) {
	servers, err := testkit.NewNet("labdhcp", netip.MustParsePrefix(serverNet))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	clients, err := testkit.NewNet("labdhcpc", netip.MustParsePrefix("10.98.0.1/24"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, clients.Close()) }()
	if err := servers.Veth(clients, linkName); err != nil {
		return nil, err
	}
	if err := clients.IP("addr", "add", "10.99.255.254/16", "dev", linkName); err != nil {
		return nil, err
	}
	dir := filepath.Join(l.Dir, strings.ReplaceAll(name, " ", "-"))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	stop, err := l.serve(ctx, name, servers, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, rate := range l.rates {
		r, err := l.load(ctx, clients, rate)
		if err != nil {
			return nil, err
		}
		r.System = name
		l.Say("%s at %d: %d of %d DISCOVER and %d of %d REQUEST not answered within a second", name, rate,
			r.Offers.Drops, r.Offers.Sent, r.Acks.Drops, r.Acks.Sent)
		out = append(out, r)
	}
	return out, nil
}

// load runs perfdhcp. It exits with 3 if packets were lost, which is a result.
func (l *Load) load(ctx context.Context, clients *testkit.Net, rate int) (run, error) {
	c := clients.Command(ctx, "perfdhcp", "-4", "-l", linkName, "-r", strconv.Itoa(rate), "-R", strconv.Itoa(l.clients),
		"-p", strconv.Itoa(l.seconds), "-W", "2000000", "-b", "mac="+macOf(0).String())
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 0 && c.ProcessState.ExitCode() != 3 {
		return run{}, fmt.Errorf("perfdhcp: %w\n%s", err, out)
	}
	r := run{Rate: rate}
	if r.Offers, err = parse(string(out), "DISCOVER-OFFER"); err == nil {
		r.Acks, err = parse(string(out), "REQUEST-ACK")
	}
	return r, err
}

// parse finds the figures of one half of an exchange in perfdhcp's output.
func parse(out, name string) (x exchange, err error) {
	_, part, found := strings.Cut(out, "***Statistics for: "+name+"***")
	if !found {
		return x, fmt.Errorf("perfdhcp tells nothing of %s:\n%s", name, out)
	}
	part, _, _ = strings.Cut(part, "***Statistics for: ")
	number := func(label string) float64 {
		m := regexp.MustCompile(`(?m)^` + label + `: ([0-9.]+)`).FindStringSubmatch(part)
		if m == nil {
			return 0 // without an answer there is no delay
		}
		v, e := strconv.ParseFloat(m[1], 64)
		err = errors.Join(err, e)
		return v
	}
	x = exchange{Sent: int(number("sent packets")), Drops: int(number("drops")), Mean: number("avg delay"),
		Most: number("max delay")}
	if x.Sent == 0 {
		err = errors.Join(err, fmt.Errorf("perfdhcp sent nothing:\n%s", part))
	}
	return x, err
}

// macOf returns the MAC of a client; perfdhcp counts up from the first.
func macOf(i int) fleet.MAC { return fleet.MAC{0x02, 0xaa, 0, 0, byte(i >> 8), byte(i)} }

// serve starts a server in the namespace.
func (l *Load) serve(ctx context.Context, name string, n *testkit.Net, dir string) (stop func() error, err error) {
	switch name {
	case "dnsmasq without a probe":
		return daemon(ctx, n, dir, "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--bind-dynamic",
			"--no-ping", "--interface="+testkit.BridgeName, "--dhcp-range="+firstLease+","+lastLease+",12h",
			"--dhcp-lease-max=20000", "--dhcp-leasefile="+filepath.Join(dir, "leases"), "--user=root")
	case "kea":
		config := filepath.Join(dir, "kea.json")
		if err := os.WriteFile(config, keaConfig(dir), 0o644); err != nil {
			return nil, err
		}
		return daemon(ctx, n, dir, "env", "KEA_PIDFILE_DIR="+dir, "KEA_LOCKFILE_DIR="+dir, "kea-dhcp4",
			"-c", config)
	}
	c := testkit.SiteConfig{Net: n, Bin: l.Bin, Data: filepath.Join(dir, "data"), DHCP: "own",
		Log: filepath.Join(dir, "server.log"), Args: []string{"--range", firstLease + "-" + lastLease}}
	if name != "pando" {
		c.Args = append(c.Args, "--no-probe")
	}
	site, err := testkit.StartSite(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range l.clients {
		node := api.NodeCreate{Name: fmt.Sprintf("pc%05d", i), MACs: []fleet.MAC{macOf(i)}}
		if _, err := site.API.CreateNode(ctx, node); err != nil {
			return nil, errors.Join(err, site.Close())
		}
	}
	return site.Close, nil
}

// daemon starts a program that serves until stop is called.
func daemon(
	ctx context.Context,
	n *testkit.Net,
	dir string,
	name string,
	args ...string,
) (stop func() error, err error) {
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := n.Command(ctx, name, args...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), log.Close())
	}
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // its status is that of a stopped program, or the log says why it ended
		close(ended)
	}()
	select {
	case <-ended:
		cancel()
		text, _ := os.ReadFile(log.Name())
		return nil, errors.Join(fmt.Errorf("%s ends: %s", name, text), log.Close())
	case <-time.After(3 * time.Second): // none of them says on a socket that it is ready
	}
	return func() error {
		cancel()
		<-ended
		return log.Close()
	}, nil
}

// keaConfig returns Kea's configuration: leases in memory and in a file, as its packages have it.
func keaConfig(dir string) []byte {
	type m = map[string]any
	b, err := json.Marshal(m{"Dhcp4": m{
		"interfaces-config": m{"interfaces": []string{testkit.BridgeName}},
		"lease-database":    m{"type": "memfile", "persist": true, "name": filepath.Join(dir, "leases4.csv")},
		"valid-lifetime":    43200,
		"subnet4": []m{{"subnet": "10.99.0.0/16", "pools": []m{{"pool": firstLease + " - " + lastLease}},
			"interface": testkit.BridgeName, "id": 1}},
		"loggers": []m{{"name": "kea-dhcp4", "severity": "WARN", "output_options": []m{{"output": "stdout"}}}},
	}})
	if err != nil {
		panic(err) // it has texts and numbers only
	}
	return b
}
