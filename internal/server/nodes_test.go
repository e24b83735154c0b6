package server

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
)

// operatorOf returns a client of a test's server, over its socket.
func operatorOf(t *testing.T, s *site) *api.Client {
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	t.Cleanup(c.Close)
	return c
}

// crew creates nodes pc01, pc02, ... with MACs that end in their number.
func crew(t *testing.T, c *api.Client, n byte) {
	t.Helper()
	for i := byte(1); i <= n; i++ {
		name := "pc0" + string('0'+i)
		if _, err := c.CreateNode(t.Context(),
			api.NodeCreate{Name: name, MACs: []fleet.MAC{{0x52, 0x54, 0, 0, 0, i}}}); err != nil {
			t.Fatal(err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func wantCode(t *testing.T, err error, code api.Code, message string) {
	t.Helper()
	if !api.IsCode(err, code) || !strings.Contains(err.Error(), message) {
		t.Errorf("error is %v, want %s: ...%s...", err, code, message)
	}
}

func TestSetNodesAllOrNone(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	crew(t, c, 3)
	if _, err := c.CreateGroup(t.Context(), fleet.Group{Name: "lab"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.SetNodes(t.Context(), api.NodeSet{Select: "pc0[1-4]", Group: ptr("lab")})
	wantCode(t, err, api.NotFound, "pc04")
	_, err = c.SetNodes(t.Context(), api.NodeSet{Select: "pc0[1-3]", Group: ptr("nowhere")})
	wantCode(t, err, api.NotFound, "nowhere")
	_, err = c.SetNodes(t.Context(), api.NodeSet{Select: "pc0[1-3]", Name: ptr("one")})
	wantCode(t, err, api.BadRequest, "for one")
	_, err = c.SetNodes(t.Context(), api.NodeSet{Select: "pc0[1-", Group: ptr("lab")})
	wantCode(t, err, api.BadRequest, "brackets")

	req := api.NodeSet{
		Select: "pc0[1-2]",
		Group:  ptr("lab"),
		Labels: map[string]*string{"room": ptr("b12")},
		DryRun: true,
	}
	tried, err := c.SetNodes(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if n := nodesIn(t, c, "@lab"); n != "" {
		t.Errorf("a dry run moved %s", n)
	}
	req.DryRun = false
	done, err := c.SetNodes(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"group: default -> lab", "label room: none -> b12"}; len(done.Nodes) != 2 ||
		!slices.Equal(done.Nodes[0].Fields, want) ||
		!slices.Equal(tried.Nodes[0].Fields, want) {
		t.Errorf("tried %+v, did %+v", tried, done)
	}
	if n := nodesIn(t, c, "room=b12"); n != "pc01 pc02" {
		t.Errorf("room=b12 is %q", n)
	}
	again, err := c.SetNodes(t.Context(), req)
	if err != nil || len(again.Nodes[0].Fields) != 0 {
		t.Errorf("the same again changes %+v (%v)", again, err)
	}
}

func nodesIn(t *testing.T, c *api.Client, selection string) string {
	t.Helper()
	nodes, err := c.Nodes(t.Context(), selection)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

func TestNodeRefusals(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	crew(t, c, 2)
	mac := fleet.MAC{0x52, 0x54, 0, 0, 0, 9}
	for _, k := range []struct {
		n    api.NodeCreate
		code api.Code
		says string
	}{
		{api.NodeCreate{Name: "pc01", MACs: []fleet.MAC{mac}}, api.Conflict, "pc01"},
		{api.NodeCreate{Name: "pc09", MACs: []fleet.MAC{{0x52, 0x54, 0, 0, 0, 1}}}, api.Conflict, "belongs to " +
			"node pc01"},
		{api.NodeCreate{Name: "PC 9", MACs: []fleet.MAC{mac}}, api.BadRequest, "host name"},
		{api.NodeCreate{Name: "pc09"}, api.BadRequest, "no MAC"},
		{api.NodeCreate{Name: "pc09", MACs: []fleet.MAC{mac}, Group: "nowhere"}, api.NotFound, "nowhere"},
		{api.NodeCreate{Name: "pc09", MACs: []fleet.MAC{mac}, Version: "lab:none"}, api.NotFound, `image "lab"`},
		{api.NodeCreate{Name: "pc09", MACs: []fleet.MAC{mac}, Address: "fe80::1"}, api.BadRequest, "IPv4"},
		{api.NodeCreate{Name: "pc09", MACs: []fleet.MAC{mac}, KernelArgs: []string{"a b"}}, api.BadRequest,
			"kernel argument"},
	} {
		_, err := c.CreateNode(t.Context(), k.n)
		wantCode(t, err, k.code, k.says)
	}
	if got := nodesIn(t, c, ""); got != "pc01 pc02" {
		t.Errorf("refused nodes were made: %s", got)
	}
	_, err := c.Node(t.Context(), "pc09")
	wantCode(t, err, api.NotFound, "pc09")
	if n, err := c.Node(t.Context(), "52:54:00:00:00:02"); err != nil || n.Name != "pc02" {
		t.Errorf("by MAC: %s, %v", n.Name, err)
	}
}

func TestDeleteNodes(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	crew(t, c, 3)
	_, err := c.DeleteNodes(t.Context(), "", false)
	wantCode(t, err, api.BadRequest, "")
	if _, err := c.DeleteNodes(t.Context(), "pc0[1-2]", true); err != nil || nodesIn(t, c, "") != "pc01 pc02 pc03" {
		t.Errorf("dry run: %v, left %s", err, nodesIn(t, c, ""))
	}
	if _, err := c.DeleteNodes(t.Context(), "pc0[1-2]", false); err != nil || nodesIn(t, c, "") != "pc03" {
		t.Errorf("delete: %v, left %s", err, nodesIn(t, c, ""))
	}
}

func TestAdoptNodes(t *testing.T) {
	s := startSite(t)
	s.policy(fleet.Approve)
	c := operatorOf(t, s)
	for i := byte(1); i <= 3; i++ {
		n := s.node(i)
		n.exchange(netboot.IPXE)
		n.script()
	}
	if got := nodesIn(t, c, "@discovered"); got != "mac-525400000001 mac-525400000002 mac-525400000003" {
		t.Fatalf("discovered: %s", got)
	}
	_, err := c.AdoptNodes(t.Context(), api.NodeAdopt{Select: "@discovered", Name: "one"})
	wantCode(t, err, api.BadRequest, "one name is for one")
	if _, err := c.AdoptNodes(t.Context(), api.NodeAdopt{Select: "52:54:00:00:00:02", Name: "gate"}); err != nil {
		t.Fatal(err)
	}
	ch, err := c.AdoptNodes(t.Context(), api.NodeAdopt{Select: "@discovered"})
	if err != nil || len(ch.Nodes) != 2 {
		t.Fatalf("%+v, %v", ch, err)
	}
	if got := nodesIn(t, c, ""); got != "gate pc001 pc002" {
		t.Errorf("nodes are %s", got)
	}
}

// TestNodeOverrides: a node's own setting reaches its assignment, is shown with its source, and can be removed.
func TestNodeOverrides(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Open)
	c := operatorOf(t, s)
	m := s.node(1)
	if _, err := c.CreateNode(t.Context(), api.NodeCreate{Name: "pc001", MACs: []fleet.MAC{m.mac}}); err != nil {
		t.Fatal(err)
	}
	set := api.NodeSet{
		Select:   "pc001",
		Settings: fleet.Settings{Peers: ptr(fleet.PeersOff), WriteLimit: ptr("2g"), AuthorizedKeys: &[]string{}},
	}
	ch, err := c.SetNodes(t.Context(), set)
	want := []string{"authorized keys: the group's -> none", "write limit: the group's -> 2g", "peers: the " +
		"group's -> off"}
	if err != nil || !slices.Equal(ch.Nodes[0].Fields, want) {
		t.Fatalf("changes %+v, %v", ch, err)
	}
	cfg := m.load()
	a := checkAssignment(t, cfg, m.register(cfg))
	if a.Swarm != nil || a.WriteLimit != "2g" {
		t.Errorf("assignment: %+v", a)
	}
	n, err := c.Node(t.Context(), "pc001")
	if err != nil {
		t.Fatal(err)
	}
	from := map[string]string{}
	for _, v := range n.Effective {
		from[v.Setting] = v.Value + " from " + v.From
	}
	for setting, want := range map[string]string{"peers": "off from node", "write_limit": "2g from node",
		"authorized_keys": "none from node",
		"image":           "follows lab from group default",
		"kernel_args":     "quiet from image", "cache": "none from default"} {
		if from[setting] != want {
			t.Errorf("%s is %s, want %s", setting, from[setting], want)
		}
	}
	_, err = c.SetNodes(t.Context(), api.NodeSet{Select: "pc001", Inherit: []string{"colour"}})
	wantCode(t, err, api.BadRequest, "colour")
	_, err = c.SetNodes(
		t.Context(),
		api.NodeSet{Select: "pc001", Settings: fleet.Settings{CacheSize: ptr(int64(8e9))}},
	)
	wantCode(t, err, api.BadRequest, "set it with cache")
	if _, err = c.SetNodes(t.Context(),
		api.NodeSet{Select: "pc001", Inherit: []string{"peers", "write_limit", "authorized_keys"}}); err != nil {
		t.Fatal(err)
	}
	if n, err = c.Node(t.Context(), "pc001"); err != nil || n.Settings != (fleet.Settings{}) {
		t.Errorf("left over: %v, %v", n.Settings.Explicit(), err)
	}
}

// TestDeleteNodeFreesItsAddress: name, fixed address, MAC and leases of a deleted node can be used by others.
func TestDeleteNodeFreesItsAddress(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	addr := netip.MustParseAddr("10.0.0.11")
	create := func() error {
		_, err := c.CreateNode(
			t.Context(),
			api.NodeCreate{Name: "pc001", MACs: []fleet.MAC{{2, 0, 0, 0, 0, 1}}, Address: addr.String()},
		)
		return err
	}
	if err := create(); err != nil {
		t.Fatal(err)
	}
	s.update(func(tx *registry.Tx) error {
		return tx.PutLease(fleet.Lease{Addr: addr, MAC: fleet.MAC{2, 0, 0, 0, 0, 1}, Static: true, Expires: s.now()})
	})
	if _, err := c.DeleteNodes(t.Context(), "pc001", true); err != nil {
		t.Fatal(err)
	}
	if l, err := c.Leases(t.Context()); err != nil || len(l) != 1 {
		t.Fatalf("a dry run left %v, %v", l, err)
	}
	if _, err := c.DeleteNodes(t.Context(), "pc001", false); err != nil {
		t.Fatal(err)
	}
	if l, err := c.Leases(t.Context()); err != nil || len(l) != 0 {
		t.Errorf("left over: %v, %v", l, err)
	}
	if err := create(); err != nil {
		t.Error(err)
	}
	_, err := c.DeleteNodes(t.Context(), "@nowhere", false)
	wantCode(t, err, api.NotFound, "nowhere")
}
