package connlimit

import (
	"net"
	"net/netip"
	"testing"
)

// One address cannot take all connections.
func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(inner, 3, 2)
	defer l.Close()
	addr := netip.MustParseAddr("127.0.0.1")
	for i, want := range []bool{true, true, false} {
		if l.enter(addr) != want {
			t.Errorf("connection %d of one address: two were to pass, and no third", i+1)
		}
	}
	if !l.enter(netip.MustParseAddr("127.0.0.2")) || l.enter(netip.MustParseAddr("127.0.0.3")) {
		t.Error("three were to pass, and no fourth")
	}
	l.leave(addr)
	if !l.enter(addr) {
		t.Error("who left made no room")
	}
}
