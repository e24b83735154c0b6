package power

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// TestMagicPacketOnTheWire sends to a local network and to one behind a router, and reads the packets that arrive.
func TestMagicPacketOnTheWire(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	server, err := testkit.NewNet("pwol", netip.MustParsePrefix("10.77.0.1/24"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	room, err := testkit.NewNet("pwolroom", netip.MustParsePrefix("10.78.0.1/24"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = room.Close() })
	if err := errors.Join(server.Veth(room, "eth0"), room.IP("addr", "add", "10.77.0.2/24", "dev", "eth0"),
		server.IP("route", "add", "10.78.0.0/24", "via", "10.77.0.2"),
		room.IP("link", "add", "near", "type", "veth", "peer", "name", "far"),
		room.IP("link", "set", "near", "master", testkit.BridgeName, "up"),
		room.IP("link", "set", "far", "up")); err != nil { // a bridge without a machine has no carrier
		t.Fatal(err)
	}
	// The router forwards directed broadcasts; that is off by default.
	for _, f := range []string{"net/ipv4/ip_forward", "net/ipv4/conf/all/bc_forwarding",
		"net/ipv4/conf/eth0/bc_forwarding"} {
		if err := room.Do(func() error { return os.WriteFile("/proc/sys/"+f, []byte("1"), 0) }); err != nil {
			t.Fatal(err)
		}
	}
	mac := fleet.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}
	for _, c := range []struct {
		name, link, host, password string
		want                       []byte
	}{
		{"broadcast", "eth0", "", "", nil},
		{"directed", testkit.BridgeName, "10.78.0.255", "", nil},
		{"SecureOn", "eth0", "", "01:02:03:04:05:06", []byte{1, 2, 3, 4, 5, 6}},
		{"another port", "eth0", "10.77.0.255:40000", "1.2.3.4", []byte{1, 2, 3, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := listen(t, room, c.link)
			err := server.Do(func() error {
				s := Switch{Links: Links}
				_, err := s.Do(
					t.Context(),
					Request{
						Action:   On,
						To:       fleet.PowerTo{Method: fleet.PowerWOL, Host: c.host},
						MACs:     []fleet.MAC{mac},
						Password: c.password,
					},
				)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			got, password := wire(t)
			if got != mac || !bytes.Equal(password, c.want) {
				t.Errorf("woken is %s with %v", got, password)
			}
		})
	}
}

// listen opens a raw socket on a link, and returns a function that waits for a magic packet.
func listen(t *testing.T, n *testkit.Net, link string) func(*testing.T) (fleet.MAC, []byte) {
	t.Helper()
	var fd int
	err := n.Do(func() (err error) {
		const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		index, err := linkIndex(link)
		return errors.Join(err, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func(t *testing.T) (fleet.MAC, []byte) {
		t.Helper()
		frame := make([]byte, 2048)
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
			n, err := unix.Read(fd, frame)
			if err != nil {
				continue
			}
			if mac, password, ok := Woken(frame[:n]); ok {
				return mac, password
			}
		}
		t.Fatal("no magic packet arrived")
		return fleet.MAC{}, nil
	}
}

func TestWokenFindsOnlyMagicPackets(t *testing.T) {
	mac := fleet.MAC{2, 0, 0, 0, 0, 9}
	packet := MagicPacket(mac, nil)
	for name, b := range map[string][]byte{
		"empty": nil, "short": packet[:101], "ones": bytes.Repeat([]byte{0xff}, 101),
		"broken": append(append([]byte{}, packet[:60]...), make([]byte, 42)...),
	} {
		if m, _, ok := Woken(b); ok {
			t.Errorf("%s wakes %s", name, m)
		}
	}
	if m, rest, ok := Woken(append([]byte("header\xff\xff"), packet...)); !ok || m != mac || len(rest) != 0 {
		t.Errorf("behind a header: %s %v %v", m, rest, ok)
	}
}

func FuzzWoken(f *testing.F) {
	f.Add(MagicPacket(fleet.MAC{1, 2, 3, 4, 5, 6}, []byte{1, 2, 3, 4}))
	f.Add(bytes.Repeat([]byte{0xff}, 120))
	f.Fuzz(func(t *testing.T, b []byte) {
		if mac, rest, ok := Woken(b); ok && !bytes.HasSuffix(b, MagicPacket(mac, rest)) {
			t.Errorf("woken is %s with %v, which is not what was sent", mac, rest)
		}
	})
}
