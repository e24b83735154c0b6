package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"pando/internal/swarm"
)

// Keep-alives of a stream of pieces. A node without news sends a beat. A node that is silent for longer is gone.
const (
	beatEvery = 10 * time.Second
	beatLost  = 30 * time.Second
	beat      = 0xffff // a beat, in place of a piece
	gone      = 0x8000 // flag of a piece that was dropped
)

// addPeers adds peers to the fetcher and watches their pieces.
func (n *Node) addPeers(now time.Duration, peers ...netip.AddrPort) {
	if n.quit {
		return
	}
	n.watchAll(n.swarm.AddPeers(now, peers...))
}

func (n *Node) watchAll(peers []netip.AddrPort) {
	for _, a := range peers {
		n.work.Go(func() {
			err := n.watch(a)
			n.o.Log.Debug("a peer is gone", "peer", a, "err", err)
			n.mu.Lock()
			n.reads.ForgetRecent(a)
			n.mu.Unlock()
			n.post(n.ctx, func(now time.Duration) {
				if errors.Is(err, errUnreached) {
					n.swarm.PeerUnreachable(now, a)
					return
				}
				n.swarm.PeerLeft(a)
				if errors.Is(err, errVanished) && n.swarm.Wanting() {
					n.o.Observer.Vanished(a)
				}
			})
		})
	}
}

// errVanished means that a peer ended without a goodbye: it was killed, or its power or link was cut.
var errVanished = errors.New("it ended without a goodbye")

// errUnreached means that a peer accepts no connection: it is off, or a firewall is between.
var errUnreached = errors.New("it cannot be reached")

// watch reads the stream of a peer's pieces until the peer goes away.
func (n *Node) watch(a netip.AddrPort) error {
	ctx, cancel := context.WithCancelCause(n.ctx)
	defer cancel(nil)
	silent := time.AfterFunc(beatLost, func() { cancel(errors.New("no message for too long")) })
	defer silent.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.String()+"/have", nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "") // none
	req.Header.Set(headerPort, strconv.Itoa(int(n.o.Port)))
	resp, err := n.watches.Do(req)
	if err != nil {
		return errors.Join(errUnreached, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get(headerPack) != n.o.Pack.String() {
		return fmt.Errorf("HTTP status %d, pack %.80q", resp.StatusCode, resp.Header.Get(headerPack))
	}
	in := bufio.NewReaderSize(resp.Body, 512)
	have := swarm.NewBitmap(len(n.o.Pieces))
	if _, err := io.ReadFull(in, have); err != nil {
		return err
	}
	n.setPeerHave(a, have)
	defer n.setPeerHave(a, nil)
	n.post(n.ctx, func(time.Duration) { n.swarm.PeerHas(a, have) })
	for {
		var b [2]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			if !errors.Is(err, io.EOF) {
				err = errors.Join(errVanished, context.Cause(ctx), err)
			}
			return err
		}
		silent.Reset(beatLost)
		switch piece := int(binary.LittleEndian.Uint16(b[:])); {
		case piece == beat:
		case piece&gone != 0:
			n.setPeerPiece(a, piece&^gone, false)
			n.post(n.ctx, func(time.Duration) { n.swarm.PeerDropped(a, piece&^gone) })
		default:
			n.setPeerPiece(a, piece, true)
			n.post(n.ctx, func(time.Duration) { n.swarm.PeerGot(a, piece) })
		}
	}
}

// setPeerHave notes all pieces of a peer; nil: the peer is no longer watched.
func (n *Node) setPeerHave(a netip.AddrPort, have swarm.Bitmap) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if have == nil {
		delete(n.peerHave, a)
		return
	}
	n.peerHave[a] = slices.Clone(have)
}

func (n *Node) setPeerPiece(a netip.AddrPort, piece int, has bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.peerHave[a]
	switch {
	case piece/8 >= len(b):
	case has:
		b.Set(piece)
	default:
		b.Clear(piece)
	}
}
