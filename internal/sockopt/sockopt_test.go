package sockopt

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A priority that was set can be read back. Set reports false for a closed socket.
func TestSet(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{Message, Bulk, First} {
		if !Set(c, want) {
			t.Errorf("priority %d was not taken", want)
		}
		got := -1
		if err := raw.Control(func(fd uintptr) {
			got,
				err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY)
		}); err != nil ||
			got != want {
			t.Errorf("priority %d (%v), want %d", got, err, want)
		}
	}
	if c.Close(); Set(c, Bulk) {
		t.Error("a socket that is closed took a priority")
	}
}
