package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/dhcp"
)

// probeTime is how long to wait for answers: a dropped packet is never answered.
const probeTime = 1500 * time.Millisecond

// The source ports of the probes.
const (
	dhcpClient  = 68
	firstClient = 52000
)

// checkFirewall sends packets to the server's ports as a node would, and sees which of them arrive.
func checkFirewall(env *cmdenv.Env, ctx context.Context, o Options) []Finding {
	names := []string{o.Interface}
	if o.Interface == "" {
		names = UsableInterfaces()
	}
	own := ownDHCP(env, ctx, o)
	var out []Finding
	for _, name := range names {
		out = append(out, probeFirewall(name, o.Proc, own)...)
	}
	return out
}

func probeFirewall(name, proc string, own api.DHCP) []Finding {
	in, err := newInjector(name)
	if err != nil {
		return found(note, "run doctor as root; or try from a machine on that network: nc -vz SERVER 8480",
			"whether a firewall keeps nodes out of %s could not be checked: %v", name, err)
	}
	defer in.close()
	var tries []*try
	defer func() {
		for _, t := range tries {
			t.close()
		}
	}()
	for i, p := range serverPorts {
		t, err := newTry(p, proc, own, name, in.client)
		if err != nil || t == nil {
			continue // the check of ports reports who has it
		}
		t.client = uint16(firstClient + i)
		if p.number == 67 {
			t.client = dhcpClient
		}
		tries = append(tries, t)
	}
	if err := in.run(tries); err != nil {
		return found(note, "", "whether a firewall keeps nodes out of %s could not be checked: %v", name, err)
	}
	return firewallFindings(name, tries)
}

// try is a probe of one port.
type try struct {
	port
	client  uint16    // source port of the probe
	listen  io.Closer // listener in place of a server that does not run; nil: the server listens
	open    bool
	replied bool // an answer came
}

// newTry returns nil if another program has the port, or if the server does not use it.
func newTry(p port, proc string, own api.DHCP, name string, client netip.Addr) (*try, error) {
	inodes, err := socketsOn(proc, p)
	if err != nil {
		return nil, err
	}
	t := &try{port: p}
	for _, o := range owners(proc, inodes) {
		if o.name != "pando" {
			return nil, nil
		}
	}
	isDHCP := p.number == 67 || p.number == 4011
	switch {
	case isDHCP && own.Mode != "" && (own.Mode == string(dhcp.Off) || own.Interface != name):
		return nil, nil
	case len(inodes) > 0:
	case p.net == "tcp":
		t.listen, err = net.Listen("tcp4", fmt.Sprintf(":%d", p.number))
	default:
		var c *net.UDPConn
		if c, err = net.ListenUDP("udp4", &net.UDPAddr{Port: int(p.number)}); err == nil {
			t.listen = c
			go echo(c, client)
		}
	}
	return t, err
}

// echo answers every datagram until c is closed. Answers to a sender without an address go to client.
func echo(c *net.UDPConn, client netip.Addr) {
	buf := make([]byte, 2048)
	for {
		_, from, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if from.Addr().Unmap().IsUnspecified() {
			from = netip.AddrPortFrom(client, from.Port())
		}
		_, _ = c.WriteToUDPAddrPort([]byte("pando"), from)
	}
}

func (t *try) close() {
	if t.listen != nil {
		_ = t.listen.Close()
	}
}

// run sends all probes twice and waits for their answers.
func (in *injector) run(tries []*try) error {
	for range 2 {
		for _, t := range tries {
			if err := in.send(t); err != nil {
				return err
			}
		}
		left := func() bool {
			for _, t := range tries {
				if !t.replied {
					return true
				}
			}
			return false
		}
		if !left() {
			return nil
		}
		in.watch(probeTime, func(frame []byte, outgoing bool) bool {
			client, open, ok := answered(frame, in.client)
			if !outgoing || !ok {
				return false
			}
			for _, t := range tries {
				if t.client == client && !t.replied {
					t.open, t.replied = open, true
				}
			}
			return !left()
		})
	}
	return nil
}

func (in *injector) send(t *try) error {
	if t.replied {
		return nil
	}
	src, dst := netip.AddrPortFrom(in.client, t.client), netip.AddrPortFrom(in.server, t.number)
	switch {
	case t.net == "tcp":
		return in.inject(segment(protoTCP, src, dst, nil), 0x0800, false)
	case t.number == 69:
		return in.inject(segment(protoUDP, src, dst, []byte("\x00\x01pando-doctor\x00octet\x00")), 0x0800, false)
	}
	packet, err := dhcp.Question([6]byte(in.mac))
	if err != nil {
		return err
	}
	if t.number == 67 { // a machine that requests an address has none
		src = netip.AddrPortFrom(netip.IPv4Unspecified(), t.client)
		dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), t.number)
	}
	return in.inject(segment(protoUDP, src, dst, packet), 0x0800, t.number == 67)
}

func firewallFindings(name string, tries []*try) []Finding {
	var open, dropped, refused []string
	for _, t := range tries {
		text := fmt.Sprintf("%d/%s", t.number, t.net)
		switch {
		case t.open:
			open = append(open, text)
		case t.replied:
			refused = append(refused, text)
		default:
			dropped = append(dropped, text)
		}
	}
	var out []Finding
	for _, k := range []struct {
		did   string
		ports []string
	}{{"drops", dropped}, {"refuses", refused}} {
		if len(k.ports) > 0 {
			out = append(out, found(Warning, letIn(k.ports), "the firewall %s what nodes on %s send to %s", k.did, name,
				strings.Join(k.ports, ", "))...)
		}
	}
	if len(out) == 0 && len(open) > 0 {
		out = found(Fine, "", "packets of nodes on %s arrive at %s", name, strings.Join(open, ", "))
	}
	return out
}

// letIn returns how to open ports with the firewall tool of this machine.
func letIn(ports []string) string {
	for _, k := range []struct{ tool, word string }{
		{"firewall-cmd", "firewall-cmd --permanent --add-port="}, {"ufw", "ufw allow "},
	} {
		if _, err := exec.LookPath(k.tool); err != nil {
			continue
		}
		var lines []string
		for _, p := range ports {
			lines = append(lines, k.word+p)
		}
		if k.tool == "firewall-cmd" {
			lines = append(lines, "firewall-cmd --reload")
		}
		return strings.Join(lines, "; ")
	}
	return "accept them before the rule that keeps them out: `nft list ruleset`, `iptables -S` and " +
		"`iptables-legacy -S` show what there is"
}
