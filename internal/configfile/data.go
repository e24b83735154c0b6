package configfile

import "pando/internal/fleet"

// Data is what a template may name of its node and of the site.
type Data struct {
	Name         string            // of the node, which is its host name
	Host         string            // the part of it before the first dot
	Domain       string            // of its subnet; "" none
	MAC          string            // its first
	MACs         []string          // all
	IP           string            // its address; "" when the node may have another at each boot
	Labels       map[string]string // a label that it does not have is an error
	Group        string
	Classes      []string // hardware classes that it is of
	Serial       string   // of the machine
	UUID         string   // of the machine
	Vendor       string   // of the machine, as SMBIOS has it
	Product      string   // of the machine, as SMBIOS has it
	Architecture string   // amd64, arm64
	Servers      []string // hosts of the site's servers
	DNS          []string // its resolvers, when this site's DHCP gives them
}

// NodeData is what templates may name of a node.
func NodeData(n fleet.Node, h fleet.Hardware, classes []fleet.Class) Data {
	d := Data{Name: n.Name, Host: short(n.Name), Labels: n.Labels, Group: n.Group, Serial: n.SerialNumber(),
		UUID: n.UUID, Vendor: h.Vendor, Product: h.Product, Architecture: h.Architecture}
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	for _, m := range n.MACs {
		d.MACs = append(d.MACs, m.String())
	}
	if len(d.MACs) > 0 {
		d.MAC = d.MACs[0]
	}
	if n.Address.IsValid() {
		d.IP = n.Address.String()
	}
	for _, c := range classes {
		d.Classes = append(d.Classes, c.Name)
	}
	return d
}
