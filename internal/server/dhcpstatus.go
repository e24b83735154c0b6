package server

import (
	"fmt"
	"slices"

	"pando/internal/api"
	"pando/internal/dhcp"
	"pando/internal/registry"
	"pando/internal/server/boots"
	"pando/internal/tftp"
)

// dhcpStatus returns the state of the DHCP server for operators.
func (s *Server) dhcpStatus(tx *registry.Tx) (api.DHCP, error) {
	out := api.DHCP{Mode: string(s.cfg.DHCP.Mode)}
	if out.Mode == "" {
		out.Mode = string(dhcp.Off)
	}
	for i, n := range s.cfg.DHCP.Subnets {
		if i == 0 && n.First.IsValid() {
			out.Range = fmt.Sprintf("%s-%s", n.First, n.Last)
			use, err := boots.AddressUse(tx, n, s.now())
			if err != nil {
				return out, err
			}
			out.Addresses = api.DHCPAddresses(use)
		}
	}
	for i, st := range s.DHCP() {
		if i == 0 {
			out.Interface = st.Interface
		}
		if st.StoppedFor.IsValid() {
			out.StoppedFor = st.StoppedFor.String()
		}
		for _, o := range st.Others {
			out.Others = append(out.Others, o.Server.String())
		}
	}
	slices.Sort(out.Others)
	out.Others = slices.Compact(out.Others)
	return out, nil
}

// givesAddresses reports whether nodes get their addresses, and so their resolvers, from this server.
func (s *Server) givesAddresses() bool {
	return s.cfg.DHCP.Mode == dhcp.Own && s.dhcpStopped() == ""
}

// dhcpStopped says why this server gives no addresses at present, "" if it gives them.
func (s *Server) dhcpStopped() string {
	for _, st := range s.DHCP() {
		if st.StoppedFor.IsValid() {
			return api.DHCP{StoppedFor: st.StoppedFor.String()}.Stopped()
		}
	}
	return ""
}

// ownSubnets returns the subnets in which this server gives addresses; none unless the DHCP mode is dhcp.Own.
func (s *Server) ownSubnets() []dhcp.Subnet {
	if s.cfg.DHCP.Mode != dhcp.Own {
		return nil
	}
	return s.cfg.DHCP.Subnets
}

// dhcpOff reports whether this server answers no DHCP at all.
func (s *Server) dhcpOff() bool { return s.cfg.DHCP.Mode == dhcp.Off || s.cfg.DHCP.Mode == "" }

// observeTFTP counts a TFTP transfer and adds it to the boot of its machine.
func (s *Server) observeTFTP(t tftp.Transfer) {
	s.countTFTP(t)
	s.booter.ObserveTFTP(t)
}

// places returns the base URLs at which nodes look for objects before they ask this server.
func (s *Server) places() []string {
	if s.cfg.Direct == nil {
		return nil
	}
	if u := s.cfg.Direct.NodeURL(); u != "" {
		return []string{u}
	}
	return nil
}
