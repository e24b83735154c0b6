package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// BridgeName is the bridge of every Net.
const BridgeName = "br0"

// Net is a network namespace with a bridge and without a connection to other networks. Machines attach to the bridge
// with tap devices. Net.Command runs a child process in it, and Net.Dial connects from this process.
type Net struct {
	Name string       // of the namespace, as `ip netns` knows it
	Addr netip.Prefix // address of the bridge and prefix length of its subnet

	taps atomic.Int32
}

var netCount atomic.Int32

// nextName returns a unique name that contains this process's id, by which Sweep finds the owner.
func nextName(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), netCount.Add(1))
}

// NewNet makes a namespace whose name begins with prefix, with a bridge that has the address addr. The caller must call
// Close.
func NewNet(prefix string, addr netip.Prefix) (*Net, error) {
	n := &Net{Name: nextName(prefix), Addr: addr}
	if err := ip("netns", "add", n.Name); err != nil {
		return nil, fmt.Errorf("make network namespace %s (root is needed): %w", n.Name, err)
	}
	if err := n.setUp(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Net) setUp() error {
	steps := [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", BridgeName, "address", n.bridgeMAC(), "type", "bridge", "forward_delay", "0", "stp_state", "0"},
		{"addr", "add", n.Addr.String(), "dev", BridgeName},
		{"link", "set", BridgeName, "up"},
	}
	for _, s := range steps {
		if err := n.IP(s...); err != nil {
			return err
		}
	}
	return nil
}

// bridgeMAC returns a fixed MAC for the bridge. A bridge without one has the lowest MAC of its ports. When that changes
// with a new tap, machines that know the old MAC get no answer for a minute or two, and firmware gives up before.
func (n *Net) bridgeMAC() string { return madeMAC(n.Addr.Addr()) }

// madeMAC derives a MAC from an address.
func madeMAC(addr netip.Addr) string {
	a := addr.As16()
	return fmt.Sprintf("02:70:%02x:%02x:%02x:%02x", a[12], a[13], a[14], a[15])
}

// OpenNet returns a Net that an earlier process has made.
func OpenNet(name string, addr netip.Prefix) *Net { return &Net{Name: name, Addr: addr} }

// Close removes the namespace and all devices in it. Processes that still run in it keep running without a network.
func (n *Net) Close() error {
	if _, err := os.Stat(n.path()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return ip("netns", "del", n.Name)
}

func (n *Net) path() string { return "/run/netns/" + n.Name }

// IP runs the command ip with args inside the namespace.
func (n *Net) IP(args ...string) error {
	return ip(append([]string{"-n", n.Name}, args...)...)
}

// Tap makes a tap device on the bridge for one machine, and returns its name.
func (n *Net) Tap() (string, error) {
	tap := fmt.Sprintf("tap%d", n.taps.Add(1))
	for _, s := range [][]string{
		{"tuntap", "add", "dev", tap, "mode", "tap"},
		{"link", "set", tap, "master", BridgeName},
		{"link", "set", tap, "up"},
	} {
		if err := n.IP(s...); err != nil {
			return "", err
		}
	}
	return tap, nil
}

// Veth makes a pair of interfaces. One end is on the bridge of n. The other is in the namespace of other, with the
// given name, up and without an address.
func (n *Net) Veth(other *Net, name string) error {
	localEnd := fmt.Sprintf("veth%d", n.taps.Add(1))
	for _, s := range [][]string{
		{"link", "add", localEnd, "type", "veth", "peer", "name", name, "netns", other.Name},
		{"link", "set", localEnd, "master", BridgeName, "up"},
	} {
		if err := n.IP(s...); err != nil {
			return err
		}
	}
	return other.IP("link", "set", name, "up")
}

// Command returns a command that runs inside the namespace. It has its own session, so that Ctrl-C at the terminal does
// not reach it; the caller must end it.
func (n *Net) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.Name, name}, args...)...)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return c.Process.Signal(unix.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	return c
}

// Dial connects to an IP address and port as seen from inside the namespace.
func (n *Net) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = n.Do(func() (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Do calls f on a thread that is inside the namespace: sockets and processes that f makes stay there.
func (n *Net) Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread stays locked: it ends with this goroutine, and no other goroutine ever runs in the namespace.
		runtime.LockOSThread()
		err := enter(n.path())
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func enter(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
