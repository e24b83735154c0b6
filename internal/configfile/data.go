package configfile

import "pando/internal/fleet"

// Data has the fields that a template can use: of its node and of the site.
type Data struct {
	Name         string            // the node's name, which is its host name
	Host         string            // Name up to the first dot
	Domain       string            // domain of its subnet; "": none
	MAC          string            // its first MAC address
	MACs         []string          // all of its MAC addresses
	IP           string            // its address; "" if it may have another at each boot
	Labels       map[string]string // using a label that the node does not have is an error
	Group        string
	Classes      []string // its hardware classes
	Serial       string   // of the machine
	UUID         string   // of the machine
	Vendor       string   // of the machine, as SMBIOS has it
	Product      string   // of the machine, as SMBIOS has it
	Architecture string   // amd64, arm64
	Servers      []string // hosts of the site's servers
	DNS          []string // the site's resolvers, if this site's DHCP server gives them
}

// NodeData fills the fields of Data that depend on the node.
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
