package httpapi

import (
	"net"
	"net/http"
	"net/netip"
)

// RemoteAddr returns the address that a request came from. It is not valid for the unix socket.
func RemoteAddr(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a unix socket
	}
	return a.Addr().Unmap().WithZone("")
}

// LocalAddr returns the address that the request was sent to, so the remote machine can reach it. The Host header is
// not used: the client can write anything there.
func LocalAddr(r *http.Request) netip.Addr {
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

// RemoteHost returns the address that a request came from as text; "" for the unix socket.
func RemoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// RemoteNet returns RemoteAddr as text for IPv4, and its /64 for IPv6, because a machine can choose any address of its
// network there.
func RemoteNet(r *http.Request) string {
	a := RemoteAddr(r)
	if !a.Is6() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}
