package server

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// machine is a machine with a network adapter and a serial number.
func (s *site) machine(adapter byte, addr, serial string) *node {
	n := s.nodeAt(adapter, netip.MustParseAddr(addr))
	n.serial = serial
	return n
}

// boots plays a boot and returns the name of the node that the machine became.
func (n *node) boots() string {
	n.t.Helper()
	cfg := n.load()
	req, resp := registrationOf(cfg), api.RegisterResponse{}
	req.Hardware.Serial, req.Hardware.UUID = n.serial, n.uuid
	if e := n.post("/v1/node/hello", "", req, &resp); e != nil {
		n.t.Fatalf("registration: %v (%s)", e, e.Hint)
	}
	return assigned(n.t, resp).Node
}

// refused requests a script and fails unless it says why the machine cannot boot.
func (n *node) refused(why string) {
	n.t.Helper()
	n.clock.add(nextBoot)
	n.exchange(netboot.PXE)
	n.exchange(netboot.IPXE)
	if script := n.script(); strings.Contains(script, "initrd") || !strings.Contains(script, why) {
		n.t.Errorf("want %q in:\n%s", why, script)
	}
}

// nextBoot is longer than one boot may take.
const nextBoot = 11 * 60e9

// TestDeclaredNodeKeepsAll: a node that was declared by its serial number keeps all its settings when the machine
// comes, even if the machine was discovered before. The audit log records the match.
func TestDeclaredNodeKeepsAll(t *testing.T) {
	for _, policy := range []fleet.AdoptionPolicy{fleet.Open, fleet.Approve} {
		t.Run(string(policy), func(t *testing.T) {
			s := startSite(t)
			s.addImage()
			s.policy(fleet.Approve)
			c := operatorOf(t, s)
			m := s.machine(1, "127.0.0.1", "5CD0123ABC")
			m.refused("pando node adopt mac-525400000001") // it was discovered before it was declared
			declareWithAll(t, c)
			s.policy(policy)
			if policy == fleet.Approve {
				m.refused("it says the serial number of node pc010")
				if _, err := c.AdoptNodes(t.Context(), api.NodeAdopt{Select: "mac-525400000001"}); err != nil {
					t.Fatal(err)
				}
			}
			s.clock.add(nextBoot)
			cfg := m.load()
			resp := m.register(cfg)
			if a := assigned(t, resp); a.Node != "pc010" || content(a.Files, "/etc/motd") != "desk 4" {
				t.Errorf("it boots as %s with files %v", a.Node, a.Files)
			}
			if policy == fleet.Open {
				// A serial number is said, and proves nothing: an operator approves the machine once.
				a := assigned(t, resp)
				if len(resp.Secrets) > 0 || len(a.Problems) == 0 ||
					!strings.Contains(a.Problems[0], "pando node approve pc010") {
					t.Errorf("before it is approved it gets %d secrets; problems %q", len(resp.Secrets), a.Problems)
				}
				ch, err := c.ApproveNodes(t.Context(), api.NodeSelection{Select: "pc010"})
				if err != nil || len(ch.Nodes) != 1 || len(ch.Nodes[0].Fields) != 1 {
					t.Fatalf("approve: %+v, %v", ch, err)
				}
				s.clock.add(nextBoot)
				resp = m.register(m.load())
			}
			if got := content(resp.Secrets, mungeKey); got != theSecret {
				t.Errorf("its secret is %q; problems %v", got, assigned(t, resp).Problems)
			}
			if boots := s.bootsOf("pc010"); len(boots) < 2 {
				t.Errorf("of its history %d boots are left", len(boots))
			}
			s.update(func(tx *registry.Tx) error {
				n, err := tx.Node("pc010")
				if n.Serial != "5CD0123ABC" || n.Labels["room"] != "b12" || !slices.Equal(n.Learned, n.MACs) {
					t.Errorf("it is recorded as %+v", n)
				}
				if _, err := tx.PowerPassword(registry.PowerOfNode, "pc010"); err != nil {
					t.Errorf("its power password: %v", err)
				}
				return err
			})
			if policy == fleet.Open {
				audited(t, c, "MATCH", "/v1/nodes/pc010", `"serial":"5CD0123ABC"`)
			} else {
				audited(t, c, "POST", "/v1/nodes/adopt", "mac-525400000001")
			}
		})
	}
}

// declareWithAll declares pc010 by its serial number, with every field of a node.
func declareWithAll(t *testing.T, c *api.Client) {
	t.Helper()
	_, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc010", Serial: "5CD0123ABC",
		Labels: map[string]string{"room": "b12"}})
	if err != nil {
		t.Fatal(err)
	}
	whom := []fleet.Scope{{Kind: fleet.ForNode, Name: "pc010"}}
	_, err = c.SetSecret(t.Context(), api.SecretSet{Name: "munge", Value: []byte(theSecret), For: &whom})
	if err != nil {
		t.Fatal(err)
	}
	setConfig(t, c, "node:pc010", mungeKey, `{{secret "munge"}}`)
	setConfig(t, c, "node:pc010", "/etc/motd", "desk 4")
	if err := c.SetNodePassword(t.Context(), "pc010", "calvin"); err != nil {
		t.Fatal(err)
	}
}

// audited fails unless the audit log has an entry.
func audited(t *testing.T, c *api.Client, method, path, body string) {
	t.Helper()
	lines, err := c.Audit(t.Context(), 0, 50)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(lines, func(a api.Audited) bool {
		return a.Method == method && a.Path == path && strings.Contains(string(a.Body), body)
	}) {
		t.Errorf("the audit log has no %s %s with %s: %+v", method, path, body, lines)
	}
}

// TestAdapterAtSeveralLaptops: a declared serial number takes precedence over the MAC of an adapter that moves between
// laptops, and is not overwritten.
func TestAdapterAtSeveralLaptops(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Open)
	c := operatorOf(t, s)
	serials := map[string]string{"pc010": "5CD0123ABC", "pc011": "CND8412K9X"}
	for name, serial := range serials {
		if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: name, Serial: serial}); err != nil {
			t.Fatal(err)
		}
	}
	at := func(adapter byte, addr, serial, want string) {
		t.Helper()
		s.clock.add(nextBoot)
		if got := s.machine(adapter, addr, serial).boots(); got != want {
			t.Errorf("adapter %d at the machine with %s boots as %s, want %s", adapter, serial, got, want)
		}
		for name, serial := range serials {
			if n, err := c.Node(t.Context(), name); err != nil || n.Serial != serial {
				t.Errorf("%s was declared with %s and has %q (%v)", name, serial, n.Serial, err)
			}
		}
	}
	at(1, "127.0.0.1", "5CD0123ABC", "pc010")
	at(1, "127.0.0.1", "CND8412K9X", "pc011")
	if told := s.told("pc011"); !strings.Contains(told, "was seen at node pc010 before") {
		t.Errorf("its timeline says %s", told)
	}
	at(1, "127.0.0.1", "cnd8412k9x ", "pc011") // as another firmware writes it
	at(2, "127.0.0.2", "CND8412K9X", "pc011")  // its own dock
	at(1, "127.0.0.1", "5CD0123ABC", "pc010")  // the adapter is back
	at(1, "127.0.0.1", "7XK2Q13", "pc001")     // an undeclared machine is neither node
	at(1, "127.0.0.1", "5CD0123ABC", "pc010")
	at(1, "127.0.0.1", "Default string", "pc010") // a placeholder contradicts no serial number
}

// TestAdapterOfUndeclaredLaptops: nobody declared two laptops that share a dock. They are two nodes, whichever has the
// dock, and the timeline says that it moved. A machine that differs only by its UUID is reported and not parted.
func TestAdapterOfUndeclaredLaptops(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Open)
	at := func(serial, want string) {
		t.Helper()
		s.clock.add(nextBoot)
		if got := s.machine(1, "127.0.0.1", serial).boots(); got != want {
			t.Errorf("the machine with %s boots as %s, want %s", serial, got, want)
		}
	}
	at("5CD0123ABC", "pc001")
	at("CND8412K9X", "pc002")
	if told := s.told("pc002"); !strings.Contains(told, "was seen at node pc001 before") {
		t.Errorf("its timeline says %s", told)
	}
	at("5CD0123ABC", "pc001")
	at("CND8412K9X", "pc002")

	// As its DHCP packets have it, in the other byte order, and of another machine.
	for i, uuid := range []string{packetUUID, "44454c4c-4200-1035-8052-b4c04f4e3732",
		"4c4c4544-0051-3910-8044-c7c04f463633"} {
		s.clock.add(nextBoot)
		m := s.machine(2, "127.0.0.2", "Default string")
		m.uuid = uuid
		if got := m.boots(); got != "pc003" {
			t.Errorf("machine %d with the second adapter boots as %s", i, got)
		}
	}
	if told := s.told("pc003"); strings.Count(told, "its firmware says UUID") != 1 ||
		!strings.Contains(told, "its firmware says UUID 4c4c4544-0051") {
		t.Errorf("its timeline says %s", told)
	}
}

// told returns the messages on the timelines of a node's boots.
func (s *site) told(node string) string {
	s.t.Helper()
	s.flushHistory()
	var out strings.Builder
	for _, b := range s.bootsOf(node) {
		events, err := s.registry.Events(s.t.Context(), registry.EventFilter{Boot: b.ID})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range events {
			out.WriteString(e.Message + " | " + e.Hint + "\n")
		}
	}
	return out.String()
}

// TestTwoMachinesOfOneSerial: while one machine runs, another with the same serial number does not boot as the same
// node.
func TestTwoMachinesOfOneSerial(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Open)
	c := operatorOf(t, s)
	if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc010", Serial: "5CD0123ABC"}); err != nil {
		t.Fatal(err)
	}
	first, second := s.machine(1, "127.0.0.1", "5CD0123ABC"), s.machine(2, "127.0.0.2", "5CD0123ABC")
	if got := first.boots(); got != "pc010" {
		t.Fatalf("the first is %s", got)
	}
	s.clock.add(nextBoot)
	s.lastSeen.Note(first.mac, first.addr, s.clock.now())
	second.exchange(netboot.PXE)
	second.exchange(netboot.IPXE)
	if script := second.script(); !strings.Contains(script, "two machines say that number") {
		t.Errorf("the second gets\n%s", script)
	}
	s.clock.add(nextBoot)
	if got := second.boots(); got != "pc010" {
		t.Errorf("when the first is silent it is %s", got)
	}
}

// TestSerialAdoptsNobody: with the policy approve, a machine that reports a declared serial number must wait, also with
// a known MAC, and changes nothing of the node that has that number.
func TestSerialAdoptsNobody(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Approve)
	c := operatorOf(t, s)
	for name, serial := range map[string]string{"pc010": "5CD0123ABC", "pc011": "CND8412K9X"} {
		if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: name, Serial: serial}); err != nil {
			t.Fatal(err)
		}
	}
	laptop := s.machine(1, "127.0.0.1", "5CD0123ABC")
	laptop.refused("it says the serial number of node pc010")
	_, err := c.AdoptNodes(t.Context(), api.NodeAdopt{Select: "mac-525400000001", Name: "pc011"})
	wantCode(t, err, api.Conflict, "this machine says 5CD0123ABC")
	if _, err := c.AdoptNodes(t.Context(), api.NodeAdopt{Select: "mac-525400000001", Name: "pc010"}); err != nil {
		t.Fatal(err)
	}
	if got := laptop.boots(); got != "pc010" {
		t.Errorf("adopted, it is %s", got)
	}
	s.machine(1, "127.0.0.1", "CND8412K9X").refused("and now at a machine that says serial number CND8412K9X")
	if told := s.told("pc010"); !strings.Contains(told, "pando node set pc010 --remove-mac 52:54:00:00:00:01") {
		t.Errorf("the timeline says %s", told)
	}
	s.clock.add(nextBoot)
	if got := laptop.boots(); got != "pc010" {
		t.Errorf("then it is %s", got)
	}
}

// TestDeclaredMACAndSerial: a machine with a declared MAC boots as its node. A serial number other than the declared
// one is reported, and overwrites nothing.
func TestDeclaredMACAndSerial(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Open)
	c := operatorOf(t, s)
	m := s.machine(1, "127.0.0.1", "CND8412K9X")
	if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc010", MACs: []fleet.MAC{m.mac},
		Serial: "5CD0123ABC"}); err != nil {
		t.Fatal(err)
	}
	if got := m.boots(); got != "pc010" {
		t.Errorf("it is %s", got)
	}
	n, err := c.Node(t.Context(), "pc010")
	if err != nil || n.Serial != "5CD0123ABC" || n.SerialSeen != "CND8412K9X" {
		t.Errorf("declared %s, seen %s (%v)", n.Serial, n.SerialSeen, err)
	}
	if told := s.told("pc010"); !strings.Contains(told, "pando node set pc010 --serial 'CND8412K9X'") {
		t.Errorf("its timeline says %s", told)
	}
	d, err := c.ExportFleet(t.Context())
	if err != nil || len(d.Nodes) != 1 || d.Nodes[0].Serial != "5CD0123ABC" {
		t.Errorf("exported as %+v (%v)", d.Nodes, err)
	}
}

// TestSecondNICOfANode: a machine that was discovered by a NIC becomes the node, with its history, when an operator
// gives the NIC to the node, even if the node has booted before.
func TestSecondNICOfANode(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Approve)
	c := operatorOf(t, s)
	m := s.machine(1, "127.0.0.1", "S9")
	m.refused("waits until an operator adopts it")
	if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc001",
		MACs: []fleet.MAC{{0x52, 0x54, 0, 0, 0, 9}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetNodes(t.Context(), api.NodeSet{Select: "pc001", AddMACs: []fleet.MAC{m.mac}}); err != nil {
		t.Fatal(err)
	}
	if got := len(s.bootsOf("pc001")); got != 1 {
		t.Errorf("%d boots of before are its own", got)
	}
	s.clock.add(nextBoot)
	if got := m.boots(); got != "pc001" {
		t.Errorf("it is %s", got)
	}
	_, err := c.SetNodes(t.Context(), api.NodeSet{Select: "pc001", RemoveMACs: []fleet.MAC{m.mac,
		{0x52, 0x54, 0, 0, 0, 9}}})
	wantCode(t, err, api.BadRequest, "the server could never recognise it")
}

// TestForgedPacketsBeginNoBoot: packets with the MAC of a running node start no boot, and change nothing of the node.
// Its real reboot is recorded with the time of its first packet, and so is the boot of a machine that fell silent.
func TestForgedPacketsBeginNoBoot(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	session := n.register(cfg).Session
	report := func() {
		t.Helper()
		if e := n.post("/v1/node/events", "Bearer "+session, api.ReportRequest{Boot: cfg.Boot, Events: []trace.Event{
			{Stage: trace.Booted, Kind: trace.End}}}, nil); e != nil {
			t.Fatal(e)
		}
	}
	report()
	if from := n.addr; !s.swarm.Authenticated(from) || s.swarm.Authenticated(netip.MustParseAddr("127.0.0.9")) {
		t.Error("who may report wrong bytes to the swarm is not whose boot was authenticated")
	}
	is := func(id fleet.BootID, state trace.State) {
		t.Helper()
		s.flushHistory()
		v, err := c.Node(t.Context(), "node001")
		if err != nil || v.Boot.ID != id || v.Boot.State != state {
			t.Fatalf("it is shown with boot %s %s, want %s %s (%v)", v.Boot.ID, v.Boot.State, id, state, err)
		}
	}
	s.clock.add(30 * time.Second)
	n.exchange(netboot.PXE)
	n.exchange(netboot.IPXE)
	s.booter.BootFileSent(n.addr, "undionly.kpxe", 9, s.clock.now(), nil)
	is(cfg.Boot, trace.Up)
	if got := strings.Join(s.eventsOf(cfg.Boot), " "); strings.Contains(got, "boot-file") {
		t.Errorf("its timeline has %s", got)
	}
	// A server that has just started knows of no report yet.
	s.restart()
	c = operatorOf(t, s)
	s.clock.add(30 * time.Second)
	n.exchange(netboot.PXE)
	is(cfg.Boot, trace.Up)
	report()
	var files api.NodeConfigResponse
	if e := n.post("/v1/node/config", "Bearer "+session, api.NodeConfigRequest{Boot: cfg.Boot}, &files); e != nil {
		t.Errorf("after forged packets it gets no config files: %v", e)
	}

	next := n.load() // a power cut: no shutdown event
	is(next.Boot, trace.Booting)
	if got := s.eventsOf(next.Boot); len(got) < 2 || got[0] != "dhcp begin" || got[1] != "dhcp end" {
		t.Errorf("the timeline of its reboot is %v", got)
	}
	cfg, session = next, n.register(next).Session
	report()
	s.clock.add(2 * time.Minute)
	n.exchange(netboot.PXE) // it has been silent, so this is its next boot
	if b := s.bootsOf("node001")[0]; b.ID == cfg.Boot {
		t.Error("a machine that fell silent is not shown as booting")
	}
}

// TestPresentAddress: the current address of a node is shown, whichever server gave it, and its serial number.
func TestPresentAddress(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	n := s.nodeAt(1, netip.MustParseAddr("127.0.0.7"))
	if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc001", MACs: []fleet.MAC{n.mac},
		Address: "10.77.0.99"}); err != nil {
		t.Fatal(err)
	}
	n.register(n.load())
	nodes, err := c.Nodes(t.Context(), "")
	if err != nil || len(nodes) != 1 || nodes[0].IP != n.addr || nodes[0].SerialNumber() != "S1" {
		t.Errorf("listed with address %v and serial number %s (%v)", nodes[0].IP, nodes[0].SerialNumber(), err)
	}
}

// TestAddressesThatNobodyGives: a fixed address that no DHCP answer could give is refused, with the reason.
func TestAddressesThatNobodyGives(t *testing.T) {
	s := startSite(t, func(c *Config) {
		c.DHCP.Mode = dhcp.Own
		c.DHCP.Subnets = []dhcp.Subnet{{Prefix: netip.MustParsePrefix("10.77.0.1/24"),
			Routers: []netip.Addr{netip.MustParseAddr("10.77.0.254")}}}
	})
	c := operatorOf(t, s)
	for address, why := range map[string]string{
		"10.78.0.5":   "is in no network in which this server gives addresses",
		"10.77.0.0":   "is the network or broadcast address",
		"10.77.0.255": "is the network or broadcast address",
		"10.77.0.254": "is the router's",
	} {
		_, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc001", MACs: []fleet.MAC{{2, 0, 0, 0, 0, 1}},
			Address: address})
		wantCode(t, err, api.BadRequest, why)
		_, err = c.ApplyFleet(t.Context(), api.Apply{Declaration: api.Declaration{Nodes: []api.NodeDeclare{
			{NodeCreate: api.NodeCreate{Name: "pc001", MACs: []fleet.MAC{{2, 0, 0, 0, 0, 1}}, Address: address}}}}})
		wantCode(t, err, api.BadRequest, why)
	}
	if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc001", MACs: []fleet.MAC{{2, 0, 0, 0, 0, 1}},
		Address: "10.77.0.9"}); err != nil {
		t.Error(err)
	}
	_, err := c.SetNodes(t.Context(), api.NodeSet{Select: "pc001", Address: ptr("10.1.2.3")})
	wantCode(t, err, api.BadRequest, "is in no network")
}
