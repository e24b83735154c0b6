package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/ipv4"
)

// Defaults of a Server.
const (
	DefaultMaxBlock     = 1468 // with IP, UDP and TFTP headers one Ethernet frame of 1500 bytes
	DefaultMaxWindow    = 64
	DefaultTimeout      = time.Second
	DefaultRetries      = 6 // with doubling to at most 8 s: gives up after half a minute of silence
	DefaultMaxTransfers = 1024
	DefaultMaxPerPeer   = 8
	DefaultMaxPerSubnet = 256
)

// Server answers read requests. Set Files, and call Serve or ListenAndServe; zero fields mean the defaults.
// It must not be changed or copied after that.
type Server struct {
	Files        Files
	Log          *slog.Logger   // nil: silent
	Done         func(Transfer) // nil: no call. Called once for each transfer, from its own goroutine
	MaxBlock     int            // bytes of a block; larger requests are cut to it, so that no datagram is fragmented
	MaxWindow    int            // blocks of a window
	Timeout      time.Duration  // before the first retransmission, unless the peer names its own
	FirstAck     time.Duration  // a transfer is given up without an acknowledgement for this long after its request
	Retries      int            // retransmissions without an answer before a transfer is given up
	MaxTransfers int            // at once; further requests are not answered, and the peer sends them again
	MaxPerPeer   int            // at once for one address
	MaxPerSubnet int            // at once for the unknown addresses of one /24
	MaxUnknown   int            // at once for all unknown addresses; the other places are for known ones
	// Known reports whether an address belongs to a node that boots; nil: none does. It is called when places run
	// out.
	Known func(netip.Addr) bool

	mu     sync.Mutex
	places places
	lines  lines
	wg     sync.WaitGroup
}

// ListenAndServe serves on address ("0.0.0.0:69", "10.0.0.1:69") until ctx ends, and returns nil then.
func (s *Server) ListenAndServe(ctx context.Context, address string) error {
	a, err := net.ResolveUDPAddr("udp4", address)
	if err != nil {
		return fmt.Errorf("listen for TFTP on %s: %w", address, err)
	}
	conn, err := net.ListenUDP("udp4", a)
	if err != nil {
		return fmt.Errorf("listen for TFTP: %w (is another TFTP server running?)", err)
	}
	return s.Serve(ctx, conn)
}

// Serve answers requests that arrive at conn until ctx ends, waits for the transfers under way to stop, and
// returns nil then. It closes conn.
func (s *Server) Serve(ctx context.Context, conn *net.UDPConn) error {
	defer s.wg.Wait()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	// A reply must come from the address that the request was sent to. A socket on all addresses learns it from this
	// control message.
	pc := ipv4.NewPacketConn(conn)
	haveDst := pc.SetControlMessage(ipv4.FlagDst, true) == nil
	buf := make([]byte, 2048)
	for {
		n, cm, from, err := pc.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("serve TFTP: %w", err)
			}
			s.warn("tftp: packet cannot be read", "err", err) // an ICMP error of an earlier reply, for example
			select {
			case <-ctx.Done():
			case <-time.After(readPause):
			}
			continue
		}
		peer := from.(*net.UDPAddr).AddrPort()
		peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
		var local netip.Addr
		if haveDst && cm != nil {
			local, _ = netip.AddrFromSlice(cm.Dst.To4())
		}
		s.packet(ctx, conn, buf[:n], peer, local)
	}
}

// readPause keeps a socket that fails again and again from using a whole processor.
const readPause = 10 * time.Millisecond

// packet handles one datagram that arrived at the well-known port. Only read requests are served there.
func (s *Server) packet(ctx context.Context, conn *net.UDPConn, b []byte, peer netip.AddrPort, local netip.Addr) {
	refuse := func(code uint16, text string) {
		_, _ = conn.WriteToUDPAddrPort(errorPacket(code, text), peer)
	}
	if len(b) < 4 || peer.Port() == 0 {
		return
	}
	// RFC 1123 section 4.2.3.4: requests to a broadcast address are ignored.
	if local.IsMulticast() || local == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return
	}
	switch op := binary.BigEndian.Uint16(b); op {
	case opRead:
	case opWrite:
		refuse(codeAccess, "this server is read-only")
		return
	case opError:
		return // never answer an error with an error
	default:
		refuse(codeIllegal, "only read requests are served here")
		return
	}
	req, err := parseRequest(b[2:])
	if err != nil {
		s.warn("tftp: request refused", "peer", peer, "err", err)
		refuse(codeIllegal, err.Error())
		return
	}
	if !s.begin(peer) {
		return
	}
	s.wg.Go(func() {
		defer s.end(peer)
		s.transfer(ctx, req, peer, local)
	})
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

func or[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
