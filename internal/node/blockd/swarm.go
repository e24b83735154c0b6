package blockd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/blockdev"
	"pando/internal/chunk"
	"pando/internal/connlimit"
	"pando/internal/sockopt"
	"pando/internal/store"
	"pando/internal/swarm"
	"pando/internal/swarm/peer"
)

// The swarm's memory besides the pieces, in bytes: demand objects that are kept for peers, and connections and
// buffers at the maximum of peers. Less memory makes garbage collection expensive in a boot.
const (
	blockDemand = 4 << 20
	blockPeers  = 4 << 20
	blockAlone  = 12 << 20 // demand objects if there is no pack: the swarm exchanges nothing else then
)

// demandBytes returns how many bytes of objects outside the pack are kept for peers.
func demandBytes(c blockapi.Config) int {
	if len(c.Pack) == 0 {
		return blockAlone
	}
	return blockDemand
}

// unsentMost is how many unsent bytes of an upload the kernel buffers.
const unsentMost = 32 << 10

// Limits of connections from peers, in all and for one address. An address has three: one that follows this node's
// announcements and some for fetches, and one more while it boots. Old connections of a node that lost power still
// count.
const (
	maxPeerConns = swarm.MaxWatchers + 4*swarm.MaxUploads
	maxOneConns  = 8
)

// peerGone is how long data to a peer may stay unacknowledged before its connection ends. Twice the announce delay is
// added.
const peerGone = 30 * time.Second

// joinSwarm joins the swarm of the boot pack, and makes the swarm the source of its pieces and of all other objects.
// A version without a pack has a swarm too, for the chunks of simultaneous boots. joinSwarm returns nil if the node
// is to read from servers (origin) only.
func (d *blockDaemon) joinSwarm(
	ctx context.Context,
	origin *store.Retry,
	slow *store.TimeoutFloor,
	pack *blockdev.Pack,
) *peer.Node {
	c := d.cfg.Swarm
	name, pieces := d.swarmOf(pack)
	if c == nil || name.IsZero() {
		return nil
	}
	l, err := listenPeers(ctx, c.Port, peerGone+2*c.AnnounceDelay)
	if err != nil {
		d.log.Warn("node does not join the swarm", "err", err)
		return nil
	}
	keeps := d.keepsSomething()
	o := peer.NodeOptions{
		Pack:        name,
		Pieces:      pieces,
		Proofs:      d.proofs,
		Origin:      origin,
		Trackers:    d.cfg.Servers,
		Port:        l.Addr().(*net.TCPAddr).AddrPort().Port(),
		Prefix:      d.cfg.Network.PrefixLength(),
		Location:    c.Place,
		LocalOnly:   c.LocalOnly,
		Idle:        pack == nil || pack.Stream == nil || keeps,
		DemandBytes: demandBytes(d.cfg),
		Bootstrap: swarm.BootstrapFiles{
			Manifest:  d.cfg.Manifest,
			Signature: d.cfg.Signature,
		},
		Observer:       &swarmWatch{d.watch},
		BootstrapPeers: c.Start,
		Control:        c.Control,
		Slow:           slow,
		Log:            d.log,
	}
	if v, err := chunk.Check(o.Pack, d.cfg.Pack); err == nil { // the swarm has this digest as its name
		o.Bootstrap.Map = v
	}
	if d.ledger.get(countRestarts) > 0 { // the first daemon has used them
		o.BootstrapPeers, o.Control = nil, swarm.Control{}
	}
	if d.through != nil {
		o.Cached = d.through.Before
	}
	s := d.pieces.Load()
	if s != nil {
		o.Store = s
	}
	n := peer.NewNode(o)
	if s != nil {
		s.Follow(n.Moved)
		if keeps {
			// The disk is read in the pack's order. The swarm fetches objects that the disk lacks or that are
			// damaged.
			pack.Source, pack.Kept = d.kept(n), d.through.Lookup
		} else {
			pack.Source, pack.Stream = n, nil
		}
	}
	d.swarm.Store(n)
	go n.Run(ctx)
	servePeers(ctx, l, d.withKernel(n.Handler(), n.Uploads()), d.log)
	return n
}

// swarmOf returns the name of the swarm to join, and the pieces that it exchanges besides demand objects. The zero
// name means that there is no swarm.
func (d *blockDaemon) swarmOf(pack *blockdev.Pack) (name chunk.ID, pieces []peer.Piece) {
	switch {
	case pack != nil:
		for _, e := range pack.Map.Pieces {
			pieces = append(pieces, peer.Piece{ID: e.ID, Size: int64(e.StoredSize)})
		}
		return chunk.Sum(d.cfg.Pack), pieces
	case len(d.cfg.Manifest) > 0:
		return chunk.Sum(d.cfg.Manifest), nil
	}
	return chunk.ID{}, nil
}

func listenPeers(ctx context.Context, port uint16, gone time.Duration) (net.Listener, error) {
	if port == 0 {
		port = swarm.Port
	}
	c := net.ListenConfig{KeepAlive: 30 * time.Second, Control: func(_, _ string, c syscall.RawConn) error {
		// An upload occupies one of few slots until it is sent, so few bytes may wait in the kernel.
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(
				int(fd),
				unix.IPPROTO_TCP,
				unix.TCP_NOTSENT_LOWAT,
				unsentMost,
			) // other kinds of sockets do not have the option
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(gone.Milliseconds()))
		})
	}}
	c.SetMultipathTCP(false) // connections of a multipath listener do not inherit these options
	l, err := c.Listen(ctx, "tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		var again error
		if l, again = c.Listen(ctx, "tcp", ":0"); again != nil {
			return nil, fmt.Errorf("listen for peers: %w", errors.Join(err, again))
		}
	}
	return connlimit.Limit(l, maxPeerConns, maxOneConns), nil
}

// servePeers serves peers until ctx ends.
func servePeers(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 20 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    4 << 10,
		ConnContext:       sockopt.ConnContext,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	context.AfterFunc(ctx, func() { srv.Close() })
	go srv.Serve(l)
}

// leave takes the node out of its swarm before the machine goes down.
func (d *blockDaemon) leave(ctx context.Context) {
	if n := d.swarm.Load(); n != nil {
		n.Leave(ctx)
	}
}

// swarmWatch counts transfers from and to peers, and turns failures into incidents.
type swarmWatch struct {
	*sourceWatch
}

// Received counts an object that a peer sent.
func (w *swarmWatch) Received(p netip.AddrPort, bytes int) {
	w.ledger.add(bytesPeer, int64(bytes))
	w.ledger.add(countFetches, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took(p.Addr().String(), bytes)
}

// Uploaded counts an object that was sent to a peer.
func (w *swarmWatch) Uploaded(_ netip.AddrPort, bytes int) {
	w.ledger.add(bytesUploaded, int64(bytes))
}

// Corrupt reports a peer that sent wrong bytes.
func (w *swarmWatch) Corrupt(p netip.AddrPort, id chunk.ID) {
	w.ledger.add(countRejected, 1)
	w.report(blockapi.Incident{Kind: blockapi.PeerBanned, Source: p.String(), Object: id.Name(),
		Message: "it sent bytes that are not the object; they were dropped, and nothing is requested from it any more"})
}

// Left reports a peer that was slow or failed.
func (w *swarmWatch) Left(l swarm.AvoidedPeer) {
	why := "it failed, or broke off"
	switch {
	case l.Slow:
		why = "it is much slower than others"
	case l.Unreachable:
		why = "it cannot be reached (is it off, or its port closed by a firewall?)"
	}
	w.report(blockapi.Incident{Kind: blockapi.PeerLeft, Source: l.Peer.String(), Message: why + "; nothing is " +
		"requested from it for a while"})
}

// PeersFailed reports peers whose first transfer failed, in one incident.
func (w *swarmWatch) PeersFailed(peers []swarm.AvoidedPeer) {
	text := "a transfer from it broke off"
	if peers[0].Slow {
		text = "a transfer from it took much longer than others"
	}
	if more := len(peers) - 1; more > 0 {
		text = "transfers from it and " + strconv.Itoa(more) + " more broke off, or took much longer than others"
	}
	w.report(blockapi.Incident{Kind: blockapi.PeerFailed, Source: peers[0].Peer.String(), Message: text})
}

// goneWait is how long peers that vanish are collected into one incident: half a room may lose its power at once.
const goneWait = 2 * time.Second

// Vanished reports a peer that disappeared without leaving the swarm.
func (w *swarmWatch) Vanished(p netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone = append(w.gone, p.String()); len(w.gone) == 1 {
		time.AfterFunc(goneWait, w.tellGone)
	}
}

func (w *swarmWatch) tellGone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "it disappeared without leaving the swarm"
	if more := len(w.gone) - 1; more > 0 {
		text = fmt.Sprintf("it and %d more disappeared without leaving the swarm", more)
	}
	w.ledger.report(blockapi.Incident{Kind: blockapi.PeersGone, Source: w.gone[0], Message: text + "; what they " +
		"had comes from others"})
	w.gone = nil
}

// Tracker reports a tracker that does not answer, and one that answers again.
func (w *swarmWatch) Tracker(url string, err error) {
	switch {
	case errors.Is(err, peer.ErrForgotten):
		w.report(
			blockapi.Incident{Kind: blockapi.TrackerLost, Source: url, Message: "it has forgotten the swarm's nodes; " +
				"the node joins again"},
		)
		return
	case err != nil:
		w.report(
			blockapi.Incident{Kind: blockapi.TrackerLost, Source: url, Message: "servers send what no known peer " +
				"has: " + err.Error()},
		)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trackerLost {
		w.tell(blockapi.Incident{Kind: blockapi.TrackerUp, Source: url, Message: "the tracker answers"})
	}
}

func (w *swarmWatch) report(i blockapi.Incident) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trackerLost = w.trackerLost || i.Kind == blockapi.TrackerLost
	w.tell(i)
}
