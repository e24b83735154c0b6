package server

import (
	"fmt"
	"net/netip"
)

func (s *Server) dataURL(a netip.Addr) string {
	return fmt.Sprintf("http://%s", netip.AddrPortFrom(a, s.dataPort))
}

func (s *Server) controlURL(a netip.Addr) string {
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(a, s.controlPort))
}
