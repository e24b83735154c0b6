package server

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/ratelimit"
	"pando/internal/registry"
	"pando/internal/trace"
)

func TestApprovePolicy(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Approve)
	n := s.node(1)
	n.exchange(netboot.PXE)
	n.exchange(netboot.IPXE)
	script := n.script()
	if strings.Contains(script, "initrd") || !strings.Contains(script, "pando node adopt mac-525400000001") {
		t.Fatalf("script for a machine that waits:\n%s", script)
	}
	nodes := s.nodes()
	if len(nodes) != 1 || nodes[0].State != fleet.Discovered || nodes[0].Name != "mac-525400000001" {
		t.Fatalf("nodes: %+v", nodes)
	}
	n.script() // asks again: no second event
	boots := s.bootsOf(nodes[0].Name)
	if got := s.eventsOf(boots[0].ID); len(got) != 3 {
		t.Errorf("events while it waits: %v", got)
	}
	s.update(func(tx *registry.Tx) error {
		node := nodes[0]
		node.Name, node.State = "kiosk", fleet.Adopted
		return tx.PutNode(nodes[0].Name, node)
	})
	_, initramfs := urls(t, n.script())
	_, b := n.get(initramfs)
	resp := n.register(trust(t, b))
	if !strings.Contains(string(resp.Assignment), `"node":"kiosk"`) {
		t.Errorf("assignment: %s", resp.Assignment)
	}
}

func (s *site) bootsOf(node string) (boots []registry.Boot) {
	s.t.Helper()
	err := s.registry.View(s.t.Context(), func(tx *registry.Tx) (err error) {
		boots, err = tx.Boots(registry.BootFilter{Node: node})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return boots
}

func TestOpenPolicyNames(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Open)
	s.update(func(tx *registry.Tx) error {
		return tx.CreateNode(
			fleet.Node{Name: "pc002", State: fleet.Adopted, Group: "default", MACs: []fleet.MAC{{2, 0, 0, 0, 0, 2}}},
		)
	})
	for i, want := range []string{"pc001", "pc003"} {
		n := s.node(byte(i + 1))
		a := checkAssignment(t, n.load(), n.register(n.load()))
		if a.Node != want {
			t.Errorf("node %d is called %s, want %s", i, a.Node, want)
		}
	}
}

// TestNodeTakenAway: a node that is deleted during its boot gets no session.
func TestNodeTakenAway(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Approve)
	n := s.node(1)
	s.update(func(tx *registry.Tx) error {
		return tx.CreateNode(
			fleet.Node{Name: "pc001", State: fleet.Adopted, Group: "default", MACs: []fleet.MAC{n.mac}},
		)
	})
	cfg := n.load()
	s.update(func(tx *registry.Tx) error { return tx.DeleteNode("pc001") })
	if e := n.post("/v1/node/hello", "", registrationOf(cfg), nil); e == nil || e.Code != api.Unauthorized {
		t.Errorf("hello of a deleted node: %v", e)
	}
}

// TestWhyNot: the reason why a machine cannot boot is on its screen and once on its timeline.
func TestWhyNot(t *testing.T) {
	s := startSite(t)
	n := s.node(1)
	ask := func(want string) {
		t.Helper()
		n.exchange(netboot.IPXE)
		script := n.script()
		n.script()
		if strings.Contains(script, "initrd") || !strings.Contains(script, want) {
			t.Errorf("want %q in:\n%s", want, script)
		}
		boot := s.bootsOf("node001")[0]
		if p := s.progress(boot.ID); p.State != trace.Failed || p.Broken != trace.Script || p.Hint == "" {
			t.Errorf("%s: progress %+v", want, p)
		}
	}
	ask("group default has no image")
	s.update(func(tx *registry.Tx) error {
		return tx.PutGroup(fleet.Group{Name: "default", Image: "lab:nightly", Follow: true})
	})
	ask(`image lab:nightly: image "lab": not found`)
	m, version := s.addImage()
	remove(t, s.store.ObjectPath(m.Kernel.Object))
	ask("is not in the store")
	remove(t, s.store.SignaturePath(version))
	s.versions.Forget()
	ask("signature")
	failed := 0
	for _, e := range s.eventsOf(s.bootsOf("node001")[0].ID) {
		if e == "script fail" {
			failed++
		}
	}
	if failed != 4 {
		t.Errorf("%d failures on the timeline, want 4", failed)
	}
}

func TestKernelArgumentsThatCannotBe(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	n.load()
	s.update(func(tx *registry.Tx) error {
		node, err := tx.Node("node001")
		if err != nil {
			return err
		}
		node.KernelArgs = []string{"initrd=other"}
		return tx.PutNode("node001", node)
	})
	n.exchange(netboot.IPXE)
	if script := n.script(); !strings.Contains(script, "initrd is set by Pando") {
		t.Errorf("script:\n%s", script)
	}
}

// TestNoAddress: the timeline of a machine says that it gets no address, until it gets one.
func TestNoAddress(t *testing.T) {
	s := startSite(t, func(c *Config) { c.DHCP.Mode = dhcp.Own })
	seen := dhcp.Seen{
		MAC:     s.node(1).mac,
		Message: "DISCOVER",
		Client:  netboot.Client{Kind: netboot.PXE},
		Reason:  "every address of 10.0.0.100-10.0.0.200 is taken",
	}
	s.observeDHCP(seen)
	s.observeDHCP(seen)
	id := s.bootsOf("mac-525400000001")[0].ID
	if p := s.progress(id); p.State != trace.Failed || !strings.Contains(p.Failure, "is taken") {
		t.Errorf("progress: %+v", p)
	}
	s.observeDHCP(
		dhcp.Seen{MAC: seen.MAC, Message: "REQUEST", Client: seen.Client, Requested: local, Reply: "ACK", Addr: local},
	)
	if got := strings.Join(s.eventsOf(id), ", "); got != "dhcp begin, dhcp fail, dhcp end" {
		t.Errorf("events: %s", got)
	}
	if p := s.progress(id); p.State != trace.Booting {
		t.Errorf("progress: %+v", p)
	}
}

// TestStorm boots many nodes at the same time.
func TestStorm(t *testing.T) {
	s := startSite(t)
	s.addImage()
	const nodes = 100
	done := make(chan string, nodes)
	for i := range nodes {
		n := s.nodeAt(byte(i), netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}))
		n.fast = true
		go func() {
			defer func() { done <- fmt.Sprint(n.mac) }()
			n.register(n.load())
		}()
	}
	for range nodes {
		<-done
	}
	names := map[string]bool{}
	for _, n := range s.nodes() {
		names[n.Name] = true
	}
	if len(names) != nodes || !names["node100"] {
		t.Errorf("%d nodes", len(names))
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestDeclaredBySerialNumber: a machine with the serial number of a declared node is reported as such. With the policy
// approve it becomes that node when an operator adopts it; a second machine with that number waits.
func TestDeclaredBySerialNumber(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Approve)
	c := operatorOf(t, s)
	first := s.node(1)
	first.exchange(netboot.PXE)
	first.exchange(netboot.IPXE)
	if script := first.script(); strings.Contains(script, "initrd") {
		t.Fatalf("script for a machine that waits:\n%s", script)
	}
	if _, err := c.CreateNode(t.Context(),
		api.NodeCreate{Name: "pc010", Serial: "S1", Labels: map[string]string{"room": "b12"}}); err != nil {
		t.Fatal(err)
	}
	_, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc011", Serial: "S1"})
	wantCode(t, err, api.Conflict, "belongs to node pc010")
	_, err = c.CreateNode(t.Context(), api.NodeCreate{Name: "pc011", Serial: "Default string"})
	wantCode(t, err, api.BadRequest, "of many machines")
	_, err = c.CreateNode(t.Context(), api.NodeCreate{Name: "pc011"})
	wantCode(t, err, api.BadRequest, "no MAC address and no serial")

	if script := first.script(); strings.Contains(script, "initrd") ||
		!strings.Contains(script, "it says the serial number of node pc010") { // the query says serial=S1
		t.Errorf("a machine that only says the serial number:\n%s", script)
	}
	if _, err := c.AdoptNodes(t.Context(), api.NodeAdopt{Select: first.mac.String()}); err != nil {
		t.Fatal(err)
	}
	cfg := first.load()
	if a := checkAssignment(t, cfg, first.register(cfg)); a.Node != "pc010" {
		t.Errorf("the machine is %s", a.Node)
	}
	n, err := c.Node(t.Context(), "pc010")
	if err != nil || len(n.MACs) != 1 || n.MACs[0] != first.mac || n.Labels["room"] != "b12" || n.Boot == nil {
		t.Errorf("node %+v, %v", n, err)
	}
	other := s.nodeAt(2, netip.MustParseAddr("127.0.0.2"))
	other.exchange(netboot.PXE)
	other.exchange(netboot.IPXE)
	if script := other.script(); strings.Contains(script, "initrd") {
		t.Errorf("a second machine with the serial number boots:\n%s", script)
	}
	if nodes := s.nodes(); len(nodes) != 2 {
		t.Errorf("nodes: %+v", nodes)
	}
}

// TestCreateNodeThatWasSeen: a machine that waits for adoption becomes the node that an operator declares with its MAC.
func TestCreateNodeThatWasSeen(t *testing.T) {
	s := startSite(t)
	s.policy(fleet.Approve)
	c := operatorOf(t, s)
	m := s.node(1)
	m.exchange(netboot.PXE)
	if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc001", MACs: []fleet.MAC{m.mac}}); err != nil {
		t.Fatal(err)
	}
	n, err := c.Node(t.Context(), m.mac.String())
	if err != nil || n.Name != "pc001" || n.State != fleet.Adopted || n.Boot == nil || n.Seen.IsZero() {
		t.Errorf("node %+v, %v", n, err)
	}
	_, err = c.CreateNode(t.Context(), api.NodeCreate{Name: "pc002", MACs: []fleet.MAC{m.mac}})
	wantCode(t, err, api.Conflict, "belongs to node pc001")
}

// TestFlood: made-up MACs fill neither disk nor memory, and real machines still boot.
func TestFlood(t *testing.T) {
	s := startSite(t)
	s.addImage()
	const flood, burst = 300, 50
	s.discovery.LimitPackets(ratelimit.New(burst, 0))
	for i := range flood {
		mac := fleet.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}
		s.observeDHCP(dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: netboot.Client{Kind: netboot.PXE}})
	}
	if got := len(s.nodes()); got > burst {
		t.Errorf("%d nodes on record after a flood of %d", got, flood)
	}
	n := s.node(1)
	cfg := n.load()
	n.register(cfg)
	// Its DHCP exchange was not recorded when it happened. It is recorded now that the machine boots.
	if got := s.eventsOf(cfg.Boot); len(got) < 6 || got[0] != "dhcp begin" {
		t.Errorf("events: %v", got)
	}
}
