package dhcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"pando/internal/fleet"
)

// A probe sends two requests. An answer within probeWait means that the address is in use. iPXE sends its next DISCOVER
// after one second, and firmware after four: the offer has to be out before.
const (
	probeEvery = 150 * time.Millisecond
	probeTimes = 2
	probeWait  = 400 * time.Millisecond
)

// maxAnswers bounds the unread answers to one probe: the client's own, and those of the NICs of one machine.
const maxAnswers = 8

// arpProber probes addresses of the segment itself.
type arpProber struct {
	sock *packetSocket

	mu      sync.Mutex
	waiting map[netip.Addr][]chan fleet.MAC
}

// run passes ARP answers to the probes that wait for them, until the socket is closed.
func (p *arpProber) run() {
	buf := make([]byte, 128)
	for {
		n, _, err := p.sock.recv(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(afterError)
			continue
		}
		mac, a, ok := arpSender(buf[:n])
		if !ok {
			continue
		}
		p.mu.Lock()
		for _, c := range p.waiting[a] {
			select {
			case c <- mac:
			default:
			}
		}
		p.mu.Unlock()
	}
}

func (p *arpProber) probe(ctx context.Context, a netip.Addr, own fleet.MAC) (fleet.MAC, bool, error) {
	answer := make(chan fleet.MAC, maxAnswers)
	p.watch(a, answer)
	defer p.unwatch(a, answer)
	from, err := p.sock.mac()
	if err != nil {
		return fleet.MAC{}, false, err
	}
	return ask(ctx, answer, own, func() error { return p.sock.send(broadcastMAC, arpRequest(from, a)) })
}

func (p *arpProber) watch(a netip.Addr, c chan fleet.MAC) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[netip.Addr][]chan fleet.MAC{}
	}
	p.waiting[a] = append(p.waiting[a], c)
}

func (p *arpProber) unwatch(a netip.Addr, c chan fleet.MAC) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.waiting[a][:0:0]
	for _, o := range p.waiting[a] {
		if o != c {
			rest = append(rest, o)
		}
	}
	if p.waiting[a] = rest; len(rest) == 0 {
		delete(p.waiting, a)
	}
}

// ask sends a probe's request a few times and waits for an answer of another machine than own.
func ask(ctx context.Context, answer <-chan fleet.MAC, own fleet.MAC, send func() error) (fleet.MAC, bool, error) {
	end := time.NewTimer(probeWait)
	defer end.Stop()
	again := time.NewTicker(probeEvery)
	defer again.Stop()
	if err := send(); err != nil {
		return fleet.MAC{}, false, err
	}
	for sent := 1; ; {
		select {
		case mac := <-answer:
			if mac != own {
				return mac, true, nil
			}
		case <-again.C:
			if sent < probeTimes {
				sent++
				if err := send(); err != nil {
					return fleet.MAC{}, false, err
				}
			}
		case <-end.C:
			return fleet.MAC{}, false, nil
		case <-ctx.Done():
			return fleet.MAC{}, false, ctx.Err()
		}
	}
}

// echoProber probes addresses behind a relay agent, where ARP does not reach, with ICMP echo. Machines that drop
// it are not found; RFC 2131 section 3.1 proposes nothing better.
type echoProber struct{}

func (echoProber) probe(ctx context.Context, a netip.Addr, own fleet.MAC) (fleet.MAC, bool, error) {
	c, err := icmp.ListenPacket("ip4:icmp", "0.0.0.0")
	if err != nil {
		return fleet.MAC{}, false, err
	}
	defer c.Close()
	answer := make(chan fleet.MAC, 1)
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			m, err := icmp.ParseMessage(1, buf[:n])
			if ia, ok := from.(*net.IPAddr); ok && err == nil && m.Type == ipv4.ICMPTypeEchoReply &&
				ia.IP.Equal(ip(a)) {
				answer <- fleet.MAC{}
				return
			}
		}
	}()
	msg := icmp.Message{
		Type: ipv4.ICMPTypeEcho,
		Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: 1, Data: []byte("pando")},
	}
	b, err := msg.Marshal(nil)
	if err != nil {
		return fleet.MAC{}, false, err
	}
	return ask(ctx, answer, own, func() error {
		_, err := c.WriteTo(b, &net.IPAddr{IP: ip(a)})
		return err
	})
}
