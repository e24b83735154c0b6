package endpoint

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Ports are the ports of a running server. They are filled in when it listens.
type Ports struct{ Data, Control uint16 }

// DataURL returns the base URL of the image port at an address of the server.
func (p *Ports) DataURL(a netip.Addr) string {
	return fmt.Sprintf("http://%s", netip.AddrPortFrom(a, p.Data))
}

// ControlURL returns the base URL of the control port at an address of the server.
func (p *Ports) ControlURL(a netip.Addr) string {
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(a, p.Control))
}

// ControlURLs returns the base URLs of the control port at every address of these interfaces; none: of all interfaces.
func (p *Ports) ControlURLs(interfaces []string) []string {
	var urls []string
	all, _ := net.Interfaces() // an error leaves the list empty
	for _, i := range all {
		if len(interfaces) > 0 && !slices.Contains(interfaces, i.Name) || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
				urls = append(urls, p.ControlURL(prefix.Addr()))
			}
		}
	}
	return urls
}
