package rivals

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync/atomic"

	"pando/internal/bench"
	"pando/internal/nbd"
)

// nbdPort is the registered port of NBD.
const nbdPort = 10809

// nbdConnections is the number of connections of a node, as recommended for a root over NBD.
const nbdConnections = 2

// serveRawNBD starts nbdkit with the raw image.
func serveRawNBD(ctx context.Context, h bench.Host, m *bench.Image) (bench.Served, error) {
	return serveNBD(ctx, h, m.RawFile)
}

// serveNBD starts nbdkit with a file, on the server's host.
func serveNBD(
	ctx context.Context,
	h bench.Host,
	file func(context.Context) (string, error),
) (bench.Served, error) {
	path, err := file(ctx)
	if err != nil {
		return bench.Served{}, err
	}
	args := slices.Concat(
		[]string{"--foreground", "--readonly", "--port", strconv.Itoa(nbdPort)},
		[]string{"file", path},
	)
	return h.Start(ctx, h.Net.Command(context.Background(), "nbdkit", args...), "nbdkit", nbdPort)
}

// attachNBD attaches the root with a client in user space that sends the same requests as the kernel's. The processor
// time of the kernel's client is not included.
func attachNBD(ctx context.Context, n bench.Client) (bench.Root, error) {
	r := &nbdRoot{}
	for range nbdConnections {
		c, err := n.Net.Dial(ctx, "tcp", net.JoinHostPort(bench.Network.Addr().String(), strconv.Itoa(nbdPort)))
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		if err := r.add(c); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

// nbdRoot is a root behind several NBD connections, which are used in turn.
type nbdRoot struct {
	clients []*nbd.Client
	next    atomic.Uint32
}

func (r *nbdRoot) add(c net.Conn) error {
	k, err := nbd.Dialed(c, "")
	if err != nil {
		return errors.Join(err, c.Close())
	}
	r.clients = append(r.clients, k)
	return nil
}

func (r *nbdRoot) ReadAt(p []byte, off int64) (int, error) {
	k := r.clients[int(r.next.Add(1))%len(r.clients)]
	return k.ReadAt(p, off)
}

func (r *nbdRoot) Usage(context.Context) (t bench.Usage, err error) {
	return t, nil
}

func (r *nbdRoot) close() error {
	var err error
	for _, k := range r.clients {
		err = errors.Join(err, k.Close())
	}
	return err
}

// Close ends the connections.
func (r *nbdRoot) Close() { _ = r.close() }
