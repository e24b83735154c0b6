package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func newTestNet(t *testing.T, addr string) *Net {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces: not root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces: no command ip (Debian's package iproute2 has it)")
	}
	n, err := NewNet("kit", netip.MustParsePrefix(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// A listener inside the namespace is reached by Dial, and from nowhere else.
func TestDialIsInsideTheNamespace(t *testing.T) {
	n := newTestNet(t, "10.71.0.1/24")
	if _, err := n.Dial(t.Context(), "tcp", "10.71.0.1:22"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("dial the bridge's address: got %v, want connection refused", err)
	}
	c, err := n.Dial(t.Context(), "udp", "10.71.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.LocalAddr().String(); !strings.HasPrefix(got, "10.71.0.1:") {
		t.Errorf("local address inside the namespace is %s", got)
	}
}

// A new machine does not change the bridge's MAC, which running machines know.
func TestBridgeKeepsItsAddress(t *testing.T) {
	n := newTestNet(t, "10.73.1.1/24")
	address := func() (mac string) {
		if err := n.Do(func() error {
			nic, err := net.InterfaceByName(BridgeName)
			if err == nil {
				mac = nic.HardwareAddr.String()
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return mac
	}
	before := address()
	for range 3 {
		if _, err := n.Tap(); err != nil {
			t.Fatal(err)
		}
		if got := address(); got != before {
			t.Fatalf("with another tap the bridge has %s, before it had %s", got, before)
		}
	}
}

func TestCloseRemovesTheNamespace(t *testing.T) {
	n := newTestNet(t, "10.72.0.1/24")
	if _, err := n.Tap(); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Dial(t.Context(), "tcp", "10.72.0.1:1"); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("dial through a closed net: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestVethJoinsTwoNets(t *testing.T) {
	a, b := newTestNet(t, "10.73.0.1/24"), newTestNet(t, "10.74.0.1/24")
	if err := a.Veth(b, "lan0"); err != nil {
		t.Fatal(err)
	}
	if err := b.IP("addr", "add", "10.73.0.2/24", "dev", "lan0"); err != nil {
		t.Fatal(err)
	}
	c, err := b.Dial(t.Context(), "tcp", "10.73.0.1:9")
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("dial over the pair: got %v, want connection refused", err)
	}
}

// A command's process is the program itself, not `ip`, and it ends when its context ends.
func TestCommandEndsWithItsContext(t *testing.T) {
	n := newTestNet(t, "10.75.0.1/24")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := n.Command(ctx, "sh", "-c", "echo up; exec sleep 60")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.Wait(); err == nil {
		t.Error("a program that was told to end ended with status 0")
	}
}

// The remains of a killed test are removed; those of a living process stay.
func TestSweepRemovesWhatTheDeadLeft(t *testing.T) {
	alive := newTestNet(t, "10.76.0.1/24")
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead := fmt.Sprintf("kit-%d-1", gone.Process.Pid)
	if err := ip("netns", "add", dead); err != nil {
		t.Fatal(err)
	}
	left := (&Net{Name: dead}).Command(t.Context(), "sh", "-c", "echo up; exec sleep 600")
	out, err := left.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil { // it is inside the namespace now
		t.Fatal(err)
	}
	if err := Sweep("kit"); err != nil {
		t.Fatal(err)
	}
	if err := left.Wait(); err == nil {
		t.Error("the program in the dead one's namespace ended by itself")
	}
	if _, err := os.Stat((&Net{Name: dead}).path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead one's namespace: %v", err)
	}
	if _, err := os.Stat(alive.path()); err != nil {
		t.Errorf("the living one's namespace: %v", err)
	}
}
