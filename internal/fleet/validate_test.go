package fleet

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func goodNode() Node {
	return Node{Name: "pc001", State: Adopted, Group: "default", MACs: []MAC{{0x52, 0x54, 0, 1, 2, 3}},
		Labels: map[string]string{
			"room": "b 12",
		}, Address: netip.MustParseAddr("10.0.0.7"), Version: "lab:stable", KernelArgs: []string{"quiet", "a.b=c,d"}}
}

func TestNodeValidate(t *testing.T) {
	if err := goodNode().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Node){
		"host name":           func(n *Node) { n.Name = "pc_1" },
		"is not discovered":   func(n *Node) { n.State = "" },
		"of one machine":      func(n *Node) { n.MACs[0] = MAC{1} },
		"given twice":         func(n *Node) { n.MACs = append(n.MACs, n.MACs[0]) },
		`label "a b"`:         func(n *Node) { n.Labels["a b"] = "" },
		"commas":              func(n *Node) { n.Labels["a"] = "1,2" },
		"not an IPv4":         func(n *Node) { n.Address = netip.MustParseAddr("ff02::1") },
		"tag name":            func(n *Node) { n.Version = "lab:" },
		"kernel argument":     func(n *Node) { n.KernelArgs = []string{"a b"} },
		`argument "${net0}"`:  func(n *Node) { n.KernelArgs = []string{"${net0}"} },
		"255.255.255.255 is ": func(n *Node) { n.Address = netip.MustParseAddr("255.255.255.255") },
	} {
		n := goodNode()
		spoil(&n)
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestGroupValidate(t *testing.T) {
	good := func() Group {
		return Group{
			Name:  "lab",
			Image: "lab",
			Settings: Settings{
				AuthorizedKeys: &[]string{"ssh-ed25519 AAAA me"},
				WriteLimit:     as("50%"),
				RebootAfter:    as(time.Minute),
			},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Group){
		"group name":      func(g *Group) { g.Name = "La b" },
		"a set of nodes":  func(g *Group) { g.Name = "all" },
		"version digest":  func(g *Group) { g.Image = "lab@sha256:1" },
		"authorized key":  func(g *Group) { g.AuthorizedKeys = &[]string{"a b\nc d"} },
		"a private key":   func(g *Group) { g.AuthorizedKeys = &[]string{"-----BEGIN OPENSSH PRIVATE KEY-----"} },
		"reboot after":    func(g *Group) { g.RebootAfter = as(time.Second) },
		"write limit":     func(g *Group) { g.WriteLimit = as("150%") },
		"on, off or rack": func(g *Group) { g.Peers = as(PeerPolicy("some")) },
		"none, ram or":    func(g *Group) { g.Cache = as(CachePolicy("tape")) },
		"64 to 64000 MB":  func(g *Group) { g.Cache, g.CacheSize = as(CacheDisk), as(int64(1e6)) },
		"1 to 4000 MB":    func(g *Group) { g.Cache, g.CacheSize = as(CacheRAM), as(int64(8e9)) },
	} {
		g := good()
		spoil(&g)
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	for _, after := range []time.Duration{0, 30 * time.Second, -1} {
		g := good()
		if g.RebootAfter = &after; g.Validate() != nil {
			t.Errorf("reboot after %s was refused", after)
		}
	}
	for _, limit := range []string{"1%", "99%", "100%", "512m", "2G", "1073741824"} {
		g := good()
		if g.WriteLimit = &limit; g.Validate() != nil {
			t.Errorf("write limit %s was refused", limit)
		}
	}
}

func TestMAC(t *testing.T) {
	want := MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	for _, s := range []string{"52:54:00:12:34:56", "52-54-00-12-34-56", "5254.0012.3456", "525400123456",
		"01-52-54-00-12-34-56", " 52:54:00:12:34:56 "} {
		if got, err := ParseMAC(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "52:54", "525400123456789", "zz:54:00:12:34:56", "00:00:00:00:fe:80:00:00"} {
		if _, err := ParseMAC(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
	if got := want.BootIF(); got != "01-52-54-00-12-34-56" {
		t.Error(got)
	}
}

func TestRef(t *testing.T) {
	d := "sha256:" + strings.Repeat("a", 64)
	for in, want := range map[Ref][3]string{"lab": {"lab", "latest", ""}, "lab:v1.2": {"lab", "v1.2", ""},
		Ref("lab@" + d): {"lab", "", d}} {
		name, tag, digest, err := in.Split()
		if err != nil || [3]string{name, tag, string(digest)} != want {
			t.Errorf("%s: %s %s %s %v", in, name, tag, digest, err)
		}
	}
	for _, in := range []Ref{"", ":x", "lab:", "lab@", "Lab", "lab:a:b", "lab@sha256:xyz"} {
		if _, _, _, err := in.Split(); err == nil {
			t.Errorf("%q was taken", in)
		}
	}
}
