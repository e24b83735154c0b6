package boot

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

const (
	subnet      = "10.77.0.1/24"
	bootTimeout = 6 * time.Minute // an emulated boot takes a minute; other tests run in parallel
	stepTimeout = 3 * time.Minute // for every other wait
)

// The ssh key for logins. It opens only short-lived machines in an isolated network.
var (
	loginSecret = ed25519.NewKeyFromSeed(seed("pando boot tests"))
	loginKey    = mustSigner(loginSecret)
	authorized  = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(loginKey.PublicKey())))
)

func seed(s string) []byte { h := sha256.Sum256([]byte(s)); return h[:] }

func mustSigner(key ed25519.PrivateKey) ssh.Signer {
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		panic(err) // the key has the right length
	}
	return s
}

// site is a server in its own network, and the machines there.
type site struct {
	*testkit.Site
	t   *testing.T
	net *testkit.Net
	dir string
}

// newSite starts a server with the built images in its store. args are further arguments of `pando serve`.
func newSite(t *testing.T, dhcp string, args ...string) *site {
	t.Helper()
	return newSiteIn(t, newNet(t), base, dhcp, args...)
}

func newNet(t *testing.T) *testkit.Net {
	t.Helper()
	network, err := testkit.NewNet("boot", netip.MustParsePrefix(subnet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logError(t, network.Close()) })
	return network
}

// newSiteIn starts a server whose data directory is a copy of from.
func newSiteIn(t *testing.T, network *testkit.Net, from, dhcp string, args ...string) *site {
	t.Helper()
	return newSiteWith(t, network, from, testkit.SiteConfig{DHCP: dhcp, Args: args})
}

// newSiteWith is newSiteIn with a given configuration. It fills in directories and the log.
func newSiteWith(t *testing.T, network *testkit.Net, from string, c testkit.SiteConfig) *site {
	t.Helper()
	s := &site{
		t:   t,
		net: network,
		dir: filepath.Join(runDir(), strings.ToLower(strings.TrimPrefix(t.Name(), "TestReal"))),
	}
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := copyData(from, data)
	if err != nil {
		t.Fatal(err)
	}
	c.Net, c.Bin, c.Data, c.Log = network, binDir, data, filepath.Join(s.dir, "server.log")
	s.Site, err = testkit.StartSite(t.Context(), c)
	if s.Site != nil {
		t.Cleanup(func() {
			logError(t, s.Site.Close())
			if !t.Failed() {
				os.RemoveAll(s.dir)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.group(bookworm)
	s.group(trixie)
	return s
}

// copyData makes a data directory with the images of another one. Objects are hard links, because they are never
// written to.
func copyData(from, data string) error {
	const script = `mkdir -p "$2" && cd "$1" && cp -al store "$2" &&
		find . -mindepth 1 -maxdepth 1 ! -name store ! -name whole ! -type s -exec cp -a {} "$2" \;`
	if out, err := exec.Command("sh", "-c", script, "sh", from, data).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", from, err, out)
	}
	return nil
}

// group makes a group that follows the image of the same name.
func (s *site) group(name string) {
	s.t.Helper()
	_, err := s.API.CreateGroup(s.t.Context(), fleet.Group{Name: name, Image: fleet.Ref(name), Follow: true,
		KernelArgs: testkit.KernelArgs(), Settings: fleet.Settings{AuthorizedKeys: &[]string{authorized}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

func logError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// node is a machine of a test.
type node struct {
	name     string
	mac      fleet.MAC
	firmware testkit.Firmware
	group    string
	nic      string        // QEMU's name; "": the default
	second   fleet.MAC     // MAC of a further NIC in the same network that it does not boot by; zero: none
	stick    string        // image of a USB stick that it boots from
	memory   int           // MiB; 0: the default
	cpus     int           // 0: one
	clock    time.Duration // how far its clock is ahead; negative: behind
	screen   bool          // it has a graphics card
	poor     bool          // an old processor, and no random number generator
	smbios   string        // texts for its SMBIOS, in QEMU's form

	cache         string // image of a disk that it does not boot from
	cacheReadOnly bool
	cacheBoots    bool
	cacheUSB      bool // that disk is a USB stick
	cacheCard     bool // that disk is a memory card

	tpm string // directory with the state of its TPM
}

// announce declares a node on the server before it boots.
func (s *site) announce(n node) {
	s.t.Helper()
	if _, err := s.API.CreateNode(s.t.Context(),
		api.NodeCreate{Name: n.name, MACs: []fleet.MAC{n.mac}, Group: n.group}); err != nil {
		s.t.Fatal(err)
	}
}

// powerOn waits for a free processor and starts the machine. booted frees the processor.
func (s *site) powerOn(n node) (m *testkit.Machine, booted func()) {
	s.t.Helper()
	slots <- struct{}{}
	free := true
	booted = func() {
		if free {
			free = false
			<-slots
		}
	}
	s.t.Cleanup(booted)
	m, err := testkit.StartMachine(testkit.MachineConfig{Name: n.name, Firmware: n.firmware, MAC: n.mac, NIC: n.nic,
		Second: n.second, Stick: n.stick, Memory: n.memory, CPUs: n.cpus, Clock: n.clock, Screen: n.screen,
		Poor: n.poor, SMBIOS: n.smbios,
		Cache: n.cache, CacheReadOnly: n.cacheReadOnly, CacheBoots: n.cacheBoots, CacheUSB: n.cacheUSB,
		CacheCard: n.cacheCard, TPM: n.tpm, Net: s.net, Dir: s.dir})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { logError(s.t, m.Close()) })
	return m, booted
}

// boot declares a machine, switches it on and waits until it is up.
func (s *site) boot(n node) *testkit.Machine {
	s.t.Helper()
	s.announce(n)
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	booted()
	return m
}

// waitUp waits until the node runs what it should run.
func (s *site) waitUp(n node, m *testkit.Machine) api.Node {
	s.t.Helper()
	return s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.State.Reached() && n.Running != "" && n.Running == n.Desired
	})
}

func (s *site) wait(name string, limit time.Duration, m *testkit.Machine, good func(api.Node) bool) api.Node {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	n, err := s.WaitNode(ctx, name, good)
	if err != nil {
		s.t.Fatalf(
			"%v\nconsole:\n%s\nserver:\n%s",
			err,
			m.Console.Tail(25),
			testkit.Console{Path: s.Config.Log}.Tail(15),
		)
	}
	return n
}

// waitEvent waits for an event of a node's latest boot.
func (s *site) waitEvent(name string, m *testkit.Machine, good func(trace.Event) bool) trace.Event {
	s.t.Helper()
	return s.waitEventFor(name, bootTimeout, m, good)
}

func (s *site) waitEventFor(
	name string,
	limit time.Duration,
	m *testkit.Machine,
	good func(trace.Event) bool,
) trace.Event {
	s.t.Helper()
	var found trace.Event
	s.wait(name, limit, m, func(api.Node) bool {
		b, err := s.API.NodeBoot(s.t.Context(), name)
		if err != nil {
			return false
		}
		for _, e := range b.Events {
			if good(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// reached returns a function that accepts events of the stage and of later stages.
func reached(stage trace.Stage) func(trace.Event) bool {
	return func(e trace.Event) bool { return trace.Rank(e.Stage) >= trace.Rank(stage) }
}

// shell logs in to a node at the address that the server leased.
func (s *site) shell(n node) *testkit.Guest {
	s.t.Helper()
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.shellAt(n, addr)
}

func (s *site) shellAt(n node, addr netip.Addr) *testkit.Guest {
	s.t.Helper()
	host, err := s.HostKey(n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	g, err := testkit.DialGuest(ctx, testkit.GuestConfig{Net: s.net, Addr: addr, Key: loginKey, HostKey: host})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { g.Close() })
	return g
}

// run runs a command in a guest.
func (s *site) run(g *testkit.Guest, command string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	out, err := g.Run(ctx, command)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return out
}
