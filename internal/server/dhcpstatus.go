package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/dhcp"
	"pando/internal/registry"
	"pando/internal/server/boots"
	"pando/internal/tftp"
	"pando/internal/trace"
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
	addStates(&out, s.DHCP())
	return out, nil
}

// addStates adds how DHCP stands on each interface.
func addStates(out *api.DHCP, states []dhcp.State) {
	for _, st := range states {
		out.Interfaces = append(out.Interfaces, st.Interface)
		if st.StoppedFor.IsValid() {
			out.StoppedFor = st.StoppedFor.String()
		}
		for _, o := range st.Others {
			out.Others = append(out.Others, o.Server.String())
		}
	}
	slices.Sort(out.Others)
	out.Others = slices.Compact(out.Others)
}

// dhcpPorts are the ports of DHCP, on its interfaces.
func dhcpPorts(states []dhcp.State) []api.Port {
	var names []string
	for _, st := range states {
		names = append(names, st.Interface)
	}
	if len(names) == 0 {
		return nil
	}
	return []api.Port{{Net: "udp", Number: dhcp.ServerPort, Use: "DHCP", Interfaces: names},
		{Net: "udp", Number: dhcp.BootPort, Use: "proxyDHCP", Interfaces: names}}
}

// portsForNodes are the ports that nodes reach this server at.
func (s *Server) portsForNodes() []api.Port {
	out := dhcpPorts(s.DHCP())
	l := s.listeners
	if l == nil {
		return out
	}
	add := func(p api.Port, at net.Addr) {
		a, err := netip.ParseAddrPort(at.String())
		if err != nil {
			return
		}
		p.Number = a.Port()
		if ip := a.Addr().Unmap(); !ip.IsUnspecified() {
			p.Address = ip
		}
		out = append(out, p)
	}
	if l.tftp != nil {
		p := api.Port{Net: "udp", Use: "TFTP"}
		if names := s.loaders.Sent(); len(names) > 0 {
			p.File = names[0]
		}
		add(p, l.tftp.LocalAddr())
	}
	add(api.Port{Net: "tcp", Use: "boot files and images"}, l.data.Addr())
	add(api.Port{Net: "tcp", Use: "control port"}, l.control.Addr())
	return out
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

// warnOfDHCP records a warning that is about no node.
func (s *Server) warnOfDHCP(message, hint string) {
	ctx, cancel := context.WithTimeout(context.Background(), bootlog.RecordTime)
	defer cancel()
	event := trace.Event{Time: s.now(), Stage: trace.DHCP, Kind: trace.Fail, Message: message, Hint: hint}
	if _, err := s.registry.Append(ctx, event); err != nil {
		s.log.Warn("event cannot be recorded", "event", message, "err", err)
	}
}
