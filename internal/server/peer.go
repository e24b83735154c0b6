package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// asker is the address of who asks.
func asker(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a unix socket
	}
	return a.Addr().Unmap().WithZone("")
}

// localAddr is the address at which we were asked: the one that this machine can reach. The Host header is not
// taken: whoever asks may write anything there.
func localAddr(r *http.Request) netip.Addr {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}
	}
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap().WithZone("")
}

func (s *Server) dataURL(a netip.Addr) string {
	return fmt.Sprintf("http://%s", netip.AddrPortFrom(a, s.dataPort))
}

func (s *Server) controlURL(a netip.Addr) string {
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(a, s.controlPort))
}
