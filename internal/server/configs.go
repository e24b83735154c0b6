package server

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

// configs renders the config files of nodes: those that every node has, and those that were declared.
type configs struct {
	keys    identity.Keys
	subnets func() []dhcp.Subnet // to which this server gives addresses
	servers []string             // base URLs of further servers
}

func newConfigs(s *Server) *configs {
	return &configs{keys: s.keys, servers: s.cfg.Servers, subnets: func() []dhcp.Subnet {
		if !s.givesAddresses() {
			return nil
		}
		return s.cfg.DHCP.Subnets
	}}
}

// nodeConfig is what the config files of a boot of a node are made of.
type nodeConfig struct {
	node     fleet.Node
	group    fleet.Group // with what the node has otherwise
	hardware fleet.Hardware
	classes  []fleet.Class      // that its hardware is of
	declared []fleet.ConfigFile // of the node, one for each path
	secrets  []registry.Secret  // all
	boot     registry.Boot      // zero: it never booted
}

// configOf reads what a node's config files are made of, from what it reported last and from its boot b.
func configOf(tx *registry.Tx, node fleet.Node, b registry.Boot) (nodeConfig, error) {
	n := nodeConfig{node: node, boot: b}
	var err error
	if n.group, err = tx.Group(node.Group); err != nil {
		return n, err
	}
	n.group = node.Settings.Of(n.group)
	hardware, err := tx.Hardware(node.Name)
	if err != nil {
		return n, err
	}
	all, err := tx.ConfigFiles()
	if err != nil {
		return n, err
	}
	return n, n.of(tx, hardware[node.Name], all)
}

// of fills in what follows from the hardware.
func (n *nodeConfig) of(tx *registry.Tx, h fleet.Hardware, all []fleet.ConfigFile) error {
	classes, err := tx.Classes()
	n.hardware, n.classes = h, fleet.ClassesOf(h, classes)
	n.declared = fleet.ConfigFilesOf(n.node, n.classes, all)
	if err == nil {
		n.secrets, err = tx.Secrets()
	}
	return err
}

// configSet is the config files of a node, by path.
type configSet struct {
	files    []configfile.Rendered
	from     map[string]string // by path: what the file is of, "" for what every node has
	problems []string          // files that could not be made, and why
}

// all are the files themselves.
func (c configSet) all() []fleet.File {
	public, secret := c.parts()
	return append(public, secret...)
}

// parts are the files that may be kept on a node's disk, and those with a secret in them.
func (c configSet) parts() (public, secret []fleet.File) {
	for _, f := range c.files {
		if len(f.Secrets) > 0 {
			secret = append(secret, f.File)
		} else {
			public = append(public, f.File)
		}
	}
	return public, secret
}

// hostKeyName is the secret that every node has. No secret that somebody sets can have this name.
const hostKeyName = "ssh host key"

// render makes the config files of a node. A file that cannot be made is left out, and told; what is declared for a
// path stands in the place of what every node has there.
func (c *configs) render(n nodeConfig, secret configfile.Secret) configSet {
	out := configSet{from: map[string]string{}}
	data, total := c.data(n), 0
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
			out.problems = append(out.problems, err.Error())
			continue
		}
		out.files, out.from[d.Path] = append(out.files, f), d.For.String()
	}
	for _, f := range c.builtIn(n) {
		if _, declared := out.from[f.Path]; declared {
			continue
		}
		r := configfile.Rendered{File: f}
		if f.Path == configfile.HostKeyPath && fleet.ValueOf(n.group.Secrets).Kind() != fleet.SecretsMAC {
			r.Secrets = []string{hostKeyName}
			if _, err := secret(hostKeyName); err != nil {
				out.problems = append(out.problems, "its ssh host key: "+err.Error())
				continue
			}
		}
		out.files = append(out.files, r)
	}
	slices.SortFunc(out.files, func(a, b configfile.Rendered) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// data is what the node's templates may name.
func (c *configs) data(n nodeConfig) configfile.Data {
	d := configfile.NodeData(n.node, n.hardware, n.classes)
	if n.boot.Addr.IsValid() {
		d.IP = n.boot.Addr.String()
	}
	if n.boot.Server.IsValid() {
		d.Servers = append(d.Servers, n.boot.Server.String())
	}
	for _, s := range c.servers {
		if u, err := url.Parse(s); err == nil {
			d.Servers = append(d.Servers, u.Hostname())
		}
	}
	if subnet, ok := c.subnetOf(n.boot.Addr); ok {
		d.Domain = subnet.Domain
		for _, a := range subnet.DNS {
			d.DNS = append(d.DNS, a.String())
		}
	}
	return d
}

func (c *configs) subnetOf(a netip.Addr) (dhcp.Subnet, bool) {
	subnets := c.subnets()
	i := slices.IndexFunc(subnets, func(s dhcp.Subnet) bool { return s.Prefix.Contains(a) })
	if i < 0 {
		return dhcp.Subnet{}, false
	}
	return subnets[i], true
}

// builtIn are the config files that every node has.
func (c *configs) builtIn(n nodeConfig) []fleet.File {
	in := configfile.Input{
		Node:           n.node.Name,
		Address:        n.node.Address,
		MachineID:      c.keys.MachineID(n.node.Name),
		AuthorizedKeys: fleet.ValueOf(n.group.AuthorizedKeys),
	}
	in.HostKey, in.HostKeyPublic = c.keys.HostKey(n.node.Name)
	if subnet, ok := c.subnetOf(n.boot.Addr); ok {
		in.Domain, in.DNS, in.Search = subnet.Domain, subnet.DNS, subnet.Search
	}
	return configfile.Files(in)
}
