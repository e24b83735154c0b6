package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"golang.org/x/sys/unix"

	"pando/internal/link"
	"pando/internal/rundir"
)

// Renewer renews the node's lease for as long as the node runs.
type Renewer struct {
	Dir     string // directory of the recorded lease
	Network interface {
		SetNetwork(context.Context, link.Network) error
	} // the block daemon, which keeps addresses and routes up
	Info func(message, hint string) // puts a fact on the timeline
	Log  io.Writer
}

// Run renews the lease until ctx ends. No error here removes the address.
func (r *Renewer) Run(ctx context.Context) {
	var l link.Lease
	if err := rundir.ReadJSON(r.Dir, rundir.LeaseName, &l); err != nil {
		r.logf("%v", err)
		return
	}
	k := renewLoop{now: rundir.Monotonic, renew: renew, use: r.use, say: r.Info}
	k.run(ctx, l)
}

// use applies a renewed lease: the daemon keeps its address up from now on. After an error it is called again. Until
// the daemon has the new lease, the old address and the recorded old lease stay: the daemon would restore the address,
// and an agent that is killed here begins with the old lease.
func (r *Renewer) use(ctx context.Context, old, l link.Lease) error {
	if err := link.Apply(l.Network()); err != nil {
		r.logf("%v", err)
	}
	if err := r.Network.SetNetwork(ctx, l.Network()); err != nil {
		r.logf("%v", err)
		return err
	}
	if l.Address != old.Address {
		r.Info(fmt.Sprintf("address changed from %s to %s", old.Address, l.Address), "")
		if err := link.RemoveAddress(l.Interface, old.Address); err != nil {
			r.logf("%v", err)
		}
	}
	if err := rundir.WriteJSON(r.Dir, rundir.LeaseName, 0o644, l); err != nil {
		r.logf("%v", err)
	}
	return nil
}

func (r *Renewer) logf(format string, args ...any) {
	fmt.Fprintf(r.Log, "lease: "+format+"\n", args...)
}

// renew renews the lease in one of the ways. It finds the adapter by its index, because its name has changed.
func renew(ctx context.Context, l link.Lease, how renewal) (link.Lease, error) {
	i, err := net.InterfaceByIndex(l.Interface)
	if err != nil {
		return l, fmt.Errorf("interface %d: %w", l.Interface, err)
	}
	n := link.NIC{Index: i.Index, Name: i.Name, MAC: l.MAC}
	if how == discover {
		return link.Discover(ctx, n)
	}
	c, server, err := renewClient(ctx, n, l, how)
	if err != nil {
		return l, err
	}
	defer c.Close()
	req, err := dhcpv4.New(append(link.Identify(n), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest),
		dhcpv4.WithHwAddr(n.Hardware()), dhcpv4.WithClientIP(net.IP(l.Address.Addr().AsSlice())))...)
	if err != nil {
		return l, err
	}
	answer, err := c.SendAndRead(ctx, server, req,
		nclient4.IsMessageType(dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak))
	switch {
	case err != nil:
		return l, err
	case answer.MessageType() == dhcpv4.MessageTypeNak:
		return l, errNak
	}
	return link.NewLease(n, answer, rundir.Monotonic())
}

// renewClient returns a client and the address to send to: from the node's address to its server, or by broadcast to
// any server.
func renewClient(ctx context.Context, n link.NIC, l link.Lease, how renewal) (*nclient4.Client, *net.UDPAddr, error) {
	opts := []nclient4.ClientOpt{nclient4.WithTimeout(link.DHCPTimeout), nclient4.WithRetry(link.DHCPRetries)}
	if how == askAll {
		c, err := nclient4.New(n.Name, append(opts, nclient4.WithHWAddr(n.Hardware()))...)
		return c, nclient4.DefaultServers, err
	}
	// The socket is bound to the adapter, so that the image's DHCP client for another adapter can use the port too.
	lc := net.ListenConfig{Control: func(_, _ string, rc syscall.RawConn) error {
		var bindErr error
		err := rc.Control(func(fd uintptr) {
			bindErr = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.BindToDevice(int(fd), n.Name))
		})
		return errors.Join(err, bindErr)
	}}
	conn, err := lc.ListenPacket(ctx, "udp4", fmt.Sprintf("%s:%d", l.Address.Addr(), nclient4.ClientPort))
	if err != nil {
		return nil, nil, err
	}
	server := &net.UDPAddr{IP: net.IP(l.Server.AsSlice()), Port: nclient4.ServerPort}
	c, err := nclient4.NewWithConn(conn, n.Hardware(), opts...)
	if err != nil {
		conn.Close()
	}
	return c, server, err
}
