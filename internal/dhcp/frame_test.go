package dhcp

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"

	"pando/internal/fleet"
)

func TestDatagramIsReadBack(t *testing.T) {
	src, dst := netip.MustParseAddrPort("10.77.0.1:67"), netip.MustParseAddrPort("10.77.0.120:68")
	for _, body := range [][]byte{nil, []byte("a"), []byte("ab"), bytes.Repeat([]byte{0xff}, 301)} {
		b := datagram(src, dst, body)
		if got, ok := payload(b, 68); !ok || !bytes.Equal(got, body) {
			t.Errorf("payload of %x = %x, %v", b, got, ok)
		}
		if _, ok := payload(b, 67); ok {
			t.Error("the wrong port fits")
		}
		if fold(sum(b[:20])) != 0xffff {
			t.Errorf("header checksum of %x is wrong", b[:20])
		}
		if u := fold(sum(b[12:20]) + 17 + uint32(len(b)-20) + sum(b[20:])); u != 0xffff {
			t.Errorf("UDP checksum of %x is wrong", b)
		}
		vm, err := bpf.NewVM(toPort(68))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := vm.Run(b); n == 0 || err != nil {
			t.Errorf("the filter drops it: %d, %v", n, err)
		}
		b[9] = 6
		if n, _ := vm.Run(b); n != 0 {
			t.Error("the filter lets TCP through")
		}
	}
}

func TestARP(t *testing.T) {
	q := arpRequest([6]byte(alice), ip4("10.77.0.120"))
	if got := hex.EncodeToString(q); got != "0001080006040001525400000001"+"00000000"+"000000000000"+"0a4d0078" {
		t.Errorf("probe %s", got)
	}
	if _, _, ok := arpSender(q); ok {
		t.Error("a probe tells an address")
	}
	reply, _ := hex.DecodeString("00010800060400025254000000020a4d00785254000000010000000000000000")
	if mac, a, ok := arpSender(reply); !ok || fleet.MAC(mac) != bob || a != ip4("10.77.0.120") {
		t.Errorf("reply of %x, %s, %v", mac, a, ok)
	}
	if _, _, ok := arpSender(reply[:20]); ok {
		t.Error("a short packet is read")
	}
}

// The advertisement stays byte for byte the one that iPXE was seen to accept.
func TestRouterAdvertisement(t *testing.T) {
	src, dst := linkLocal(alice), netip.MustParseAddr("fe80::5054:ff:fe12:3456")
	if src.String() != "fe80::5054:ff:fe00:1" {
		t.Errorf("link-local address %s", src)
	}
	got := hex.EncodeToString(advertisement(src, dst))
	if want := "6000000000103afffe80000000000000505400fffe000001fe80000000000000505400fffe123456" +
		"8600a9a1000000000000000000000000"; got != want {
		t.Errorf("advertisement\n%s, want\n%s", got, want)
	}
}

func TestSolicitation(t *testing.T) {
	b, _ := hex.DecodeString(
		"6000000000103afffe80000000000000505400fffe123456ff020000000000000000000000000002" +
			"85002f5a000000000101525400123456",
	)
	if src, ok := solicitation(b); !ok || src.String() != "fe80::5054:ff:fe12:3456" {
		t.Errorf("solicitation of %s, %v", src, ok)
	}
	vm, err := bpf.NewVM(solicitations())
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := vm.Run(b); n == 0 {
		t.Error("the filter drops a solicitation")
	}
	for name, edit := range map[string]func([]byte){
		"another type": func(b []byte) { b[40] = routerAdvertisement }, "forwarded": func(b []byte) { b[7] = 254 },
		"no address yet": func(b []byte) { clear(b[8:24]) }, "not ICMPv6": func(b []byte) { b[6] = 17 },
	} {
		c := bytes.Clone(b)
		edit(c)
		if _, ok := solicitation(c); ok {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, ok := solicitation(b[:47]); ok {
		t.Error("a short packet is accepted")
	}
}

func TestOnlyMachinesInIPXEAreAnswered(t *testing.T) {
	var l loading
	l.saw(alice, "ipxe", noon)
	l.saw(bob, "other", noon)
	if !l.has(alice, noon) || l.has(bob, noon) || l.has(alice, noon.Add(inIPXEFor)) {
		t.Error("wrong machines are taken to be in iPXE")
	}
	l.saw(alice, "pando-init", noon)
	if l.has(alice, noon) {
		t.Error("a machine that went on is still taken to be in iPXE")
	}
	l.saw(alice, "ipxe", noon)
	l.expire(noon.Add(inIPXEFor))
	if len(l.until) != 0 {
		t.Error("an old entry stays")
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(datagram(netip.MustParseAddrPort("10.77.0.1:67"), netip.MustParseAddrPort("10.77.0.120:68"), []byte("x")))
	f.Add(advertisement(linkLocal(alice), linkLocal(bob)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := payload(b, clientPort); ok {
			otherServer(p)
		}
		solicitation(b)
		arpSender(b)
		otherServer(b)
	})
}
