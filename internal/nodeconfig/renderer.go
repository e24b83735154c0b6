package nodeconfig

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"pando/internal/configfile"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/registry"
)

// Renderer renders the config files of nodes: those that every node gets, and declared ones.
type Renderer struct {
	Keys    identity.Keys
	subnets func() []dhcp.Subnet // in which this server gives addresses
	servers []string             // base URLs of other servers
}

// New returns the Renderer of a site. subnets returns the subnets in which this server gives addresses. servers are the
// base URLs of other servers.
func New(keys identity.Keys, subnets func() []dhcp.Subnet, servers []string) *Renderer {
	return &Renderer{Keys: keys, subnets: subnets, servers: servers}
}

// Node is what the config files of a node's boot are rendered from.
type Node struct {
	Node     fleet.Node
	Group    fleet.Group // with the node's own settings
	hardware fleet.Hardware
	classes  []fleet.Class      // classes of its hardware
	declared []fleet.ConfigFile // declared files for the node, one per path
	secrets  []registry.Secret  // all secrets
	Boot     registry.Boot      // zero if it never booted
}

// Read reads what a node's config files are rendered from. b is the node's boot.
func Read(tx *registry.Tx, node fleet.Node, b registry.Boot) (Node, error) {
	n := Node{Node: node, Boot: b}
	var err error
	if n.Group, err = tx.Group(node.Group); err != nil {
		return n, err
	}
	n.Group = node.Settings.Of(n.Group)
	hardware, err := tx.Hardware(node.Name)
	if err != nil {
		return n, err
	}
	all, err := tx.ConfigFiles()
	if err != nil {
		return n, err
	}
	return n, n.Of(tx, hardware[node.Name], all)
}

// Of sets the fields that depend on the hardware.
func (n *Node) Of(tx *registry.Tx, h fleet.Hardware, all []fleet.ConfigFile) error {
	classes, err := tx.Classes()
	n.hardware, n.classes = h, fleet.ClassesOf(h, classes)
	n.declared = fleet.ConfigFilesOf(n.Node, n.classes, all)
	if err == nil {
		n.secrets, err = tx.Secrets()
	}
	return err
}

// Set holds the rendered config files of a node.
type Set struct {
	Files    []configfile.Rendered
	From     map[string]string // by path: the scope of the file, "" for files that every node gets
	Problems []string          // why files could not be rendered
}

// All returns all files.
func (c Set) All() []fleet.File {
	public, secret := c.Parts()
	return append(public, secret...)
}

// Parts returns separately the files that may be kept on a node's disk, and those that contain a secret.
func (c Set) Parts() (public, secret []fleet.File) {
	for _, f := range c.Files {
		if len(f.Secrets) > 0 {
			secret = append(secret, f.File)
		} else {
			public = append(public, f.File)
		}
	}
	return public, secret
}

// HostKeyName is the name of the secret that every node has. Operators cannot use this name.
const HostKeyName = "ssh host key"

// Render renders the config files of a node. A declared file replaces the file that every node gets at the same path. A
// file that cannot be rendered is left out and reported in Problems.
func (c *Renderer) Render(n Node, secret configfile.Secret) Set {
	out := Set{From: map[string]string{}}
	data, total := c.Data(n), 0
	for _, d := range n.declared {
		f, err := configfile.Render(d, data, secret)
		if total += len(f.Data); err == nil && total > fleet.MaxConfigFiles {
			err = fmt.Errorf(
				"config file %s of %s: with it the node would have more than %d bytes of config files",
				d.Path,
				d.For,
				fleet.MaxConfigFiles,
			)
		}
		if err != nil {
			out.Problems = append(out.Problems, err.Error())
			continue
		}
		out.Files, out.From[d.Path] = append(out.Files, f), d.For.String()
	}
	for _, f := range c.builtIn(n) {
		if _, declared := out.From[f.Path]; declared {
			continue
		}
		r := configfile.Rendered{File: f}
		if f.Path == configfile.HostKeyPath && fleet.ValueOf(n.Group.Secrets).Kind() != fleet.SecretsMAC {
			r.Secrets = []string{HostKeyName}
			if _, err := secret(HostKeyName); err != nil {
				out.Problems = append(out.Problems, "its ssh host key: "+err.Error())
				continue
			}
		}
		out.Files = append(out.Files, r)
	}
	slices.SortFunc(out.Files, func(a, b configfile.Rendered) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Data returns the data that a node's templates can use.
func (c *Renderer) Data(n Node) configfile.Data {
	d := configfile.NodeData(n.Node, n.hardware, n.classes)
	if n.Boot.Addr.IsValid() {
		d.IP = n.Boot.Addr.String()
	}
	if n.Boot.Server.IsValid() {
		d.Servers = append(d.Servers, n.Boot.Server.String())
	}
	for _, s := range c.servers {
		if u, err := url.Parse(s); err == nil {
			d.Servers = append(d.Servers, u.Hostname())
		}
	}
	if subnet, ok := c.subnetOf(n.Boot.Addr); ok {
		d.Domain = subnet.Domain
		for _, a := range subnet.DNS {
			d.DNS = append(d.DNS, a.String())
		}
	}
	return d
}

func (c *Renderer) subnetOf(a netip.Addr) (dhcp.Subnet, bool) {
	subnets := c.subnets()
	i := slices.IndexFunc(subnets, func(s dhcp.Subnet) bool { return s.Prefix.Contains(a) })
	if i < 0 {
		return dhcp.Subnet{}, false
	}
	return subnets[i], true
}

// builtIn returns the config files that every node gets.
func (c *Renderer) builtIn(n Node) []fleet.File {
	in := configfile.Input{
		Node:           n.Node.Name,
		Address:        n.Node.Address,
		MachineID:      c.Keys.MachineID(n.Node.Name),
		AuthorizedKeys: fleet.ValueOf(n.Group.AuthorizedKeys),
	}
	in.HostKey, in.HostKeyPublic = c.Keys.HostKey(n.Node.Name)
	if subnet, ok := c.subnetOf(n.Boot.Addr); ok {
		in.Domain, in.DNS, in.Search = subnet.Domain, subnet.DNS, subnet.Search
	}
	return configfile.Files(in)
}
