package server

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/server/logs"
	"pando/internal/server/operator"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// faultsOf returns the fault of each machine.
func (s *site) faultsOf() map[fleet.MAC]*api.Fault {
	s.t.Helper()
	s.faults.Forget()
	boots, err := api.OverHandler(s.socketRoutes()).FailedBoots(s.t.Context(), "", 0)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[fleet.MAC]*api.Fault{}
	for i, b := range boots {
		out[b.MAC] = b.Fault
		if i > 0 && b.Fault.Since.After(boots[i-1].Fault.Since) {
			s.t.Errorf("%s comes after older trouble", b.Node)
		}
	}
	return out
}

// TestFailedBoots: machines that vanish where only the server can see it, and nodes that report errors. Each fault is
// found in its node's latest boot, with a hint; good boots have none.
func TestFailedBoots(t *testing.T) {
	s := startSite(t)
	s.addImage()
	r := readRecorded(t)
	well := s.node(1)
	well.replay(r, trace.Booted)
	for range 3 { // so that it is known how long boots take here
		s.clock.add(time.Hour)
		well.replay(r, trace.Booted)
	}
	s.settled()

	firmware, loader, script, kernel := s.node(2), s.node(3), s.node(4), s.node(5)
	firmware.exchange(netboot.PXE)
	loader.exchange(netboot.PXE)
	s.booter.BootFileSent(local, "undionly.kpxe", 70_000, s.now(), nil)
	script.exchange(netboot.PXE)
	script.exchange(netboot.IPXE)
	script.script()
	kernel.load()
	odd := s.node(6)
	odd.observeDHCP(dhcp.Seen{Time: s.now(), MAC: odd.mac, Message: "DISCOVER", Reply: "OFFER",
		Client: netboot.Client{
			Kind: netboot.PXE,
			Arch: 12,
		}, Reason: "no boot file for architecture 12: it is neither BIOS nor UEFI on x86 or ARM64"})
	lost := s.node(7)
	lost.exchange(netboot.PXE)
	s.observeTFTP(
		tftp.Transfer{
			Name:    "undionly.kpxe",
			Peer:    netip.AddrPortFrom(local, 2000),
			Size:    70_000,
			Bytes:   100,
			Started: s.now(),
			Err:     net.ErrClosed,
		},
	)
	cable := s.node(8)
	cfg := cable.load()
	cable.fail(
		cfg,
		trace.Link,
		"no network link (tried: eth0, 15 s each)",
		"<6>[    1.5] e1000: link is down\n<4>[    2.5] e1000: link is still down\n",
	)
	units := s.node(9)
	p := units.play(r)
	p.Status.Systemd.Failed = []string{"cups.service"}
	p.report(trace.Booted, r.Uptime)
	if early := s.faultsOf(); early[firmware.mac] != nil || early[kernel.mac] != nil {
		t.Errorf("found before its time: %v %v", early[firmware.mac], early[kernel.mac])
	}
	s.clock.add(4 * time.Minute)

	got := s.faultsOf()
	for node, want := range map[*node]trace.Fault{firmware: trace.GoneInFirmware, loader: trace.GoneInLoader,
		script: trace.GoneAfterScript,
		kernel: trace.GoneInKernel, odd: trace.NoBootFile, lost: trace.BootFileLost, cable: trace.NoLink,
		units: trace.UnitsFailed} {
		if f := got[node.mac]; f == nil || f.Kind != want || f.Text == "" || f.Do == "" {
			t.Errorf("%s: %+v, want %s", node.mac, f, want)
		}
	}
	if f := got[well.mac]; f != nil {
		t.Errorf("node001 does well, and is said to have %s: %s", f.Kind, f.Text)
	}
	client := api.OverHandler(s.socketRoutes())
	status, err := client.Status(t.Context())
	if err != nil || status.Failed != len(got) || len(status.Trouble) != min(len(got), operator.StatusFaults) {
		t.Errorf("status: %d failed, %d told, %v; want %d", status.Failed, len(status.Trouble), err, len(got))
	}
	owner, err := s.discovery.Node(t.Context(), cable.mac)
	if err != nil {
		t.Fatal(err)
	}
	if some, err := client.FailedBoots(t.Context(), owner.Name, 0); err != nil || len(some) != 1 {
		t.Errorf("of one node: %v, %v", some, err)
	}
	b, err := client.NodeBoot(t.Context(), owner.Name)
	if err != nil || b.Fault == nil || b.Fault.Kind != trace.NoLink {
		t.Fatalf("%+v, %v", b.Fault, err)
	}
	if text := strings.Join(b.ConsoleLines(), "\n"); !strings.Contains(
		text,
		"pando: link FAILED, attempt 1: no network link",
	) ||
		!strings.Contains(text, "[    1.5] e1000: link is down") {
		t.Errorf("console:\n%s", text)
	}
	// The next try sends new kernel messages, and repeats the old ones.
	cable.fail(
		cfg,
		trace.Link,
		"no network link",
		"<4>[    2.5] e1000: link is still down\n<4>[    9.5] e1000: still\n",
	)
	if b, err = client.NodeBoot(t.Context(), owner.Name); err != nil ||
		strings.Count(b.Console, "link is still down") != 1 ||
		!strings.Contains(b.Console, "9.5") {
		t.Errorf("console: %q, %v", b.Console, err)
	}
}

// fail reports the failure of a stage, with kernel messages.
func (n *node) fail(cfg api.BootConfig, stage trace.Stage, message, console string) {
	n.t.Helper()
	if e := n.post("/v1/node/events", "Boot "+cfg.Token,
		api.ReportRequest{Boot: cfg.Boot, Uptime: 4 * time.Second, Console: console, Events: []trace.Event{
			{Stage: trace.Init, Kind: trace.End, Offset: time.Second},
			{Stage: stage, Kind: trace.Fail, Attempt: 1, Offset: 2 * time.Second, Message: message}}}, nil); e != nil {
		n.t.Fatal(e)
	}
}

// TestKernelPanic: kernel messages by netconsole are in their boot's console, and a panic is found also long after the
// boot, and by a restarted server.
func TestKernelPanic(t *testing.T) {
	s := startSite(t, func(c *Config) { c.Netconsole = "127.0.0.1:0" })
	s.addImage()
	n := s.node(1)
	boot := n.replay(readRecorded(t), trace.Booted)
	var asked bool
	for _, f := range logs.ConsoleFiles(local, s.netconsolePort()) {
		asked = asked || strings.Contains(string(f.Data), "@127.0.0.1/")
	}
	if !asked {
		t.Error("the node is not told where its kernel shall speak")
	}
	s.clock.add(2 * time.Hour)
	s.restart()
	conn, err := net.DialUDP("udp4", nil, s.listeners.netconsole.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, line := range []string{"[ 7200.1] BUG: unable to handle page fault\n", "[ 7200.2] Kernel panic - not " +
		"syncing: Fatal exception in interrupt\n", "[ 7200.3] ---[ end Kernel panic ]---\n"} {
		if _, err := conn.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	client := api.OverHandler(s.socketRoutes())
	var b api.BootDetail
	for range 200 {
		if b, err = client.Boot(t.Context(), boot); err != nil {
			t.Fatal(err)
		}
		if b.Fault != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if b.Fault == nil || b.Fault.Kind != trace.Panic ||
		!strings.Contains(b.Fault.Text, "Fatal exception in interrupt") ||
		!strings.Contains(b.Console, "page fault") {
		t.Fatalf("%+v\n%s", b.Fault, b.Console)
	}
	if got := s.faultsOf(); got[n.mac] == nil {
		t.Errorf("a node that was up and panicked is not among the failed: %v", got)
	}
}

// TestConsoleIsBounded: of endless kernel messages the last ones are kept.
func TestConsoleIsBounded(t *testing.T) {
	s := startSite(t)
	id := fleet.BootID("0123456789abcdef")
	for range 40 {
		if err := s.registry.PutConsole(t.Context(), id, []byte(strings.Repeat("a line of a "+
			"console\n", 300)), s.now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.registry.PutConsole(t.Context(), id, []byte("the last\n"), s.now()); err != nil {
		t.Fatal(err)
	}
	text, err := s.registry.Console(t.Context(), id)
	if err != nil || len(text) > 64<<10 || !strings.HasSuffix(text, "\nthe last\n") ||
		!strings.HasPrefix(text, "a line") {
		t.Errorf("%d bytes, %v, begins %.30q", len(text), err, text)
	}
}
