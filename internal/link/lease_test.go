package link

import (
	"net"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

var testNIC = NIC{Index: 7, Name: "eth0", MAC: fleet.MAC{0x52, 0x54, 0, 1, 2, 3}}

func ack(t *testing.T, opts ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{
		dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithYourIP(net.IPv4(10, 0, 2, 15)),
		dhcpv4.WithServerIP(net.IPv4(10, 0, 2, 2)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(10, 0, 2, 2))),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewLease(t *testing.T) {
	l, err := NewLease(testNIC, ack(t, dhcpv4.WithRouter(net.IPv4(10, 0, 2, 1)), dhcpv4.WithLeaseTime(3600),
		dhcpv4.WithDNS(net.IPv4(10, 0, 2, 3)), dhcpv4.WithOption(dhcpv4.OptHostName("pc001"))), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := Lease{Interface: 7, Name: "eth0", MAC: testNIC.MAC, Address: netip.MustParsePrefix("10.0.2.15/24"),
		Routes: []Route{{Via: netip.MustParseAddr("10.0.2.1")}}, Server: netip.MustParseAddr("10.0.2.2"),
		DNS: []netip.Addr{netip.MustParseAddr("10.0.2.3")}, Host: "pc001",
		Acquired: 5 * time.Second, Length: time.Hour, Renew: 30 * time.Minute, Rebind: 52*time.Minute + 30*time.Second}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("got  %+v\nwant %+v", l, want)
	}
}

// Classless routes replace the router (RFC 3442), and a default among them is one.
func TestLeaseClasslessRoutes(t *testing.T) {
	_, dst, _ := net.ParseCIDR("192.168.5.0/24")
	_, all, _ := net.ParseCIDR("0.0.0.0/0")
	l, err := NewLease(testNIC, ack(t, dhcpv4.WithRouter(net.IPv4(10, 0, 2, 1)), dhcpv4.WithOption(
		dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{Dest: dst, Router: net.IPv4(10, 0, 2, 9)},
			&dhcpv4.Route{Dest: all, Router: net.IPv4(10, 0, 2, 8)}))), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []Route{{To: netip.MustParsePrefix("192.168.5.0/24"), Via: netip.MustParseAddr("10.0.2.9")},
		{Via: netip.MustParseAddr("10.0.2.8")}}
	if !reflect.DeepEqual(l.Routes, want) {
		t.Errorf("routes %+v, want %+v", l.Routes, want)
	}
}

func TestLeaseOddAnswers(t *testing.T) {
	if _, err := NewLease(testNIC, ack(t, dhcpv4.WithYourIP(net.IPv4zero)), 0); err == nil {
		t.Error("a lease without an address was taken")
	}
	l, err := NewLease(testNIC, ack(t, dhcpv4.WithLeaseTime(100),
		dhcpv4.WithOption(dhcpv4.Option{Code: dhcpv4.OptionRenewTimeValue, Value: dhcpv4.Duration(time.Hour)})), 0)
	if err != nil {
		t.Fatal(err)
	}
	if l.Renew != 50*time.Second || l.Rebind != 87500*time.Millisecond {
		t.Errorf("T1 beyond the lease gives T1 %v, T2 %v; want the defaults", l.Renew, l.Rebind)
	}
	if len(l.Routes) != 0 {
		t.Errorf("routes %v from an answer without a router", l.Routes)
	}
}

func TestNewLeaseIsNotTooShort(t *testing.T) {
	for _, seconds := range []uint32{0, 1, 20} {
		l, err := NewLease(testNIC, ack(t, dhcpv4.WithLeaseTime(seconds),
			dhcpv4.WithOption(dhcpv4.Option{Code: dhcpv4.OptionRenewTimeValue, Value: dhcpv4.Duration(0)})), 0)
		if err != nil || l.Length != shortestLease || l.Renew < shortestRenew || l.Rebind < l.Renew ||
			l.Rebind > l.Length {
			t.Errorf("lease of %d s: %v, T1 %v, T2 %v, %v", seconds, l.Length, l.Renew, l.Rebind, err)
		}
	}
}
