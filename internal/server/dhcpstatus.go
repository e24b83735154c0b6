package server

import (
	"fmt"
	"slices"

	"pando/internal/api"
	"pando/internal/dhcp"
)

// dhcpStatus is what the DHCP part does, for the operator.
func (s *Server) dhcpStatus() api.DHCP {
	out := api.DHCP{Mode: string(s.cfg.DHCP.Mode)}
	if out.Mode == "" {
		out.Mode = string(dhcp.Off)
	}
	for i, n := range s.cfg.DHCP.Subnets {
		if i == 0 && n.First.IsValid() {
			out.Range = fmt.Sprintf("%s-%s", n.First, n.Last)
		}
	}
	for i, st := range s.DHCP() {
		if i == 0 {
			out.Interface = st.Interface
		}
		out.StoodDown = out.StoodDown || st.StoodDown
		for _, o := range st.Others {
			out.Others = append(out.Others, o.Server.String())
		}
	}
	slices.Sort(out.Others)
	out.Others = slices.Compact(out.Others)
	return out
}
