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
	bootTimeout = 6 * time.Minute // an emulated boot takes one; other tests run beside it
	stepTimeout = 3 * time.Minute // for everything else that is waited for
)

// The key that logs in. It opens machines that live for a minute in a network without a way out.
var (
	loginSecret = ed25519.NewKeyFromSeed(seed("pando boot tests"))
	loginKey    = mustSigner(loginSecret)
	authorized  = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(loginKey.PublicKey())))
)

func seed(s string) []byte { h := sha256.Sum256([]byte(s)); return h[:] }

func mustSigner(key ed25519.PrivateKey) ssh.Signer {
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		panic(err) // a key of the right length
	}
	return s
}

// site is a server with a network of its own, and the machines on it.
type site struct {
	*testkit.Site
	t   *testing.T
	net *testkit.Net
	dir string
}

// newSite starts a server with the built images in its store; args are further ones of `pando serve`.
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

// newSiteIn starts a server whose data is a copy of from.
func newSiteIn(t *testing.T, network *testkit.Net, from, dhcp string, args ...string) *site {
	t.Helper()
	return newSiteWith(t, network, from, testkit.SiteConfig{DHCP: dhcp, Args: args})
}

// newSiteWith is newSiteIn for a server that wants more; where it is and what it logs is filled in.
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

// copyData makes a data directory with the images of another one. Objects are never written to, so links to them do.
func copyData(from, data string) error {
	const script = `mkdir -p "$2" && cd "$1" && cp -al store "$2" &&
		find . -mindepth 1 -maxdepth 1 ! -name store ! -name whole ! -type s -exec cp -a {} "$2" \;`
	if out, err := exec.Command("sh", "-c", script, "sh", from, data).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", from, err, out)
	}
	return nil
}

// group makes a group that boots the image of the same name, and each version of it that a test makes.
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
	nic      string        // QEMU's name, "" for the default
	second   fleet.MAC     // of a card that it does not boot by, on the same wire; zero: none
	stick    string        // image of a USB stick that it boots from
	memory   int           // MiB, 0 for the default
	cpus     int           // 0 for one
	clock    time.Duration // how far its clock is ahead; below zero: behind
	screen   bool          // it has a graphics card
	poor     bool          // an old processor, and no random number generator
	smbios   string        // what QEMU is to say in its SMBIOS

	cache         string // image of a disk that it does not boot from
	cacheReadOnly bool
	cacheBoots    bool
	cacheUSB      bool // it is a stick
	cacheCard     bool // it is a memory card

	tpm string // directory with the seeds of its TPM
}

// announce makes a node known before it appears.
func (s *site) announce(n node) {
	s.t.Helper()
	if _, err := s.API.CreateNode(s.t.Context(),
		api.NodeCreate{Name: n.name, MACs: []fleet.MAC{n.mac}, Group: n.group}); err != nil {
		s.t.Fatal(err)
	}
}

// powerOn waits for a free processor and starts the machine. booted gives the processor back.
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

// boot announces a machine, powers it on and waits until it is up.
func (s *site) boot(n node) *testkit.Machine {
	s.t.Helper()
	s.announce(n)
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	booted()
	return m
}

// waitUp waits until the node runs what it should.
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

// reached is an event at or behind a stage.
func reached(stage trace.Stage) func(trace.Event) bool {
	return func(e trace.Event) bool { return trace.Rank(e.Stage) >= trace.Rank(stage) }
}

// shell logs into a node, whose address the server leased.
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
