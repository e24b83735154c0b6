package hostcheck

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
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
func checkFirewall(ctx context.Context, o Options) []Finding {
	own := ownStatus(ctx, o)
	names := own.DHCP.Interfaces
	switch {
	case o.Interface != "":
		names = []string{o.Interface}
	case len(names) == 0:
		names = UsableInterfaces()
	}
	var out []Finding
	for _, name := range names {
		out = append(out, probeFirewall(name, o.Proc, portsOf(own, o))...)
	}
	return out
}

func probeFirewall(name, proc string, ports []api.Port) []Finding {
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
	first := firstPort(os.Getpid())
	for i, p := range ports {
		t, err := in.newTry(p, proc)
		if err != nil || t == nil {
			continue // the check of ports reports who has it
		}
		t.client = first + uint16(i)
		if t.isDHCP() {
			t.client = dhcpClient
		}
		tries = append(tries, t)
	}
	if err := in.run(tries); err != nil {
		return found(note, "", "whether a firewall keeps nodes out of %s could not be checked: %v", name, err)
	}
	return firewallFindings(name, tries)
}

// firstPort is the first of the ports that this process probes from. The server repeats its answers to the probes of an
// earlier process for a minute, which must not be taken for answers to these.
func firstPort(pid int) uint16 { return uint16(firstClient + pid%800*16) }

// try is a probe of one port.
type try struct {
	api.Port
	to      netip.Addr
	client  uint16      // source port of the probe
	listen  []io.Closer // listeners in place of a server that does not run; empty: the server listens
	open    bool
	replied bool   // an answer came
	block   uint16 // number of the last TFTP block that came
}

func (t *try) isDHCP() bool { return t.Net == "udp" && t.Number == dhcp.ServerPort }
func (t *try) isTFTP() bool { return t.Use == "TFTP" }

// newTry returns nil if another program has the port, or if the server does not serve nodes of the interface on it.
func (in *injector) newTry(p api.Port, proc string) (*try, error) {
	inodes, err := socketsOn(proc, p)
	if err != nil {
		return nil, err
	}
	t := &try{Port: p, to: in.server}
	for _, o := range owners(proc, inodes) {
		if o.name != "pando" {
			return nil, nil
		}
	}
	if p.Address.IsValid() {
		if t.to = p.Address; !in.has(p.Address) {
			return nil, nil
		}
	}
	switch {
	case len(p.Interfaces) > 0 && !slices.Contains(p.Interfaces, in.ifi.Name):
		return nil, nil
	case len(inodes) > 0:
	case p.Net == "tcp":
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf(":%d", p.Number)); err == nil {
			t.listen = append(t.listen, l)
		}
	default:
		err = t.echo(in.client)
	}
	return t, err
}

// echo answers in place of a server until t is closed. For TFTP it answers from another port: the first block of a
// file, and the second block after the first was acknowledged.
func (t *try) echo(client netip.Addr) error {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(t.Number)})
	if err != nil {
		return err
	}
	t.listen = append(t.listen, c)
	answers, with := c, []byte("pando")
	if t.isTFTP() {
		if answers, err = net.ListenUDP("udp4", nil); err != nil {
			return errors.Join(err, c.Close())
		}
		t.listen = append(t.listen, answers)
		with = tftpPacket(tftpData, 1)
		go reply(answers, answers, client, tftpPacket(tftpData, 2))
	}
	go reply(c, answers, client, with)
	return nil
}

// reply sends `with` for every datagram to c, until c is closed. Answers to a sender without an address go to client.
func reply(c, answers *net.UDPConn, client netip.Addr, with []byte) {
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
		_, _ = answers.WriteToUDPAddrPort(with, from)
	}
}

func (t *try) close() {
	for _, c := range t.listen {
		_ = c.Close()
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
			a, ok := answered(frame, in.client)
			if !outgoing || !ok {
				return false
			}
			for _, t := range tries {
				if t.client == a.client && !t.replied {
					in.answer(t, a)
				}
			}
			return !left()
		})
	}
	return nil
}

// answer records the answer to a probe. The first block of a file is not the whole answer: answer acknowledges it to
// the port from which it came, because a firewall may block that port.
func (in *injector) answer(t *try, a answer) {
	if t.isTFTP() && a.open && len(a.data) >= 4 && a.data[1] == tftpData {
		block, op := binary.BigEndian.Uint16(a.data[2:]), byte(tftpAck)
		if t.block = max(t.block, block); block > 1 {
			t.open, t.replied, op, block = true, true, tftpError, 0 // tftpError ends the transfer
		}
		src, dst := netip.AddrPortFrom(in.client, t.client), netip.AddrPortFrom(t.to, a.server)
		_ = in.inject(segment(protoUDP, src, dst, tftpPacket(op, block)), 0x0800, false)
		return
	}
	t.open, t.replied = a.open, true
}

// The operation codes of TFTP packets (RFC 1350).
const (
	tftpData  = 3
	tftpAck   = 4
	tftpError = 5
)

func tftpPacket(op byte, number uint16) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0, op}, number), 0)
}

func (in *injector) send(t *try) error {
	if t.replied {
		return nil
	}
	src, dst := netip.AddrPortFrom(in.client, t.client), netip.AddrPortFrom(t.to, t.Number)
	switch {
	case t.Net == "tcp":
		return in.inject(segment(protoTCP, src, dst, nil), 0x0800, false)
	case t.isTFTP():
		name := cmp.Or(t.File, "pando-doctor")
		return in.inject(segment(protoUDP, src, dst, []byte("\x00\x01"+name+"\x00octet\x00")), 0x0800, false)
	}
	packet, err := dhcp.Question([6]byte(in.mac))
	if err != nil {
		return err
	}
	if t.isDHCP() { // a machine that requests an address has none
		src = netip.AddrPortFrom(netip.IPv4Unspecified(), t.client)
		dst = netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), t.Number)
	}
	return in.inject(segment(protoUDP, src, dst, packet), 0x0800, t.isDHCP())
}

func firewallFindings(name string, tries []*try) []Finding {
	var open, dropped, refused []string
	var acks []Finding
	for _, t := range tries {
		text := portName(t.Port)
		switch {
		case t.block > 0 && !t.open:
			acks = found(Warning, acceptAcks, "the firewall lets in what nodes on %s send to %s, and drops their "+
				"acknowledgements: TFTP sends each file from a port of its own", name, text)
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
	out = append(out, acks...)
	if len(out) == 0 && len(open) > 0 {
		out = found(Fine, "", "packets of nodes on %s arrive at %s", name, strings.Join(open, ", "))
	}
	return out
}

const acceptAcks = "accept packets that belong to what this machine sent (nft: `ct state established,related " +
	"accept`; iptables: `-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT`), before the rule that drops them"

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
