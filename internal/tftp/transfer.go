package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"pando/internal/sockopt"
)

// maxBackoff bounds the doubling of the time-out.
const maxBackoff = 8 * time.Second

var errGone = errors.New("peer does not answer any more")

// transfer answers one request from a port of its own, and reports the result.
func (s *Server) transfer(ctx context.Context, req readRequest, peer netip.AddrPort, local netip.Addr) {
	t := Transfer{Name: req.name, Peer: peer, Local: local, Started: time.Now()}
	t.Err = s.answer(ctx, req, &t)
	t.Duration = time.Since(t.Started)
	if s.Done != nil {
		s.Done(t)
	}
	switch {
	case t.Err == nil:
		s.log().
			Debug("tftp: file sent", "name", t.Name, "peer", peer, "bytes", t.Bytes, "took", t.Duration, "retries",
				t.Retries)
	case t.Probe():
		s.log().Debug("tftp: peer requested only the size", "name", t.Name, "peer", peer, "size", t.Size)
	default:
		s.warn("tftp: transfer failed", "name", fmt.Sprintf("%.80q", t.Name), "peer", peer, "bytes", t.Bytes, "err",
			t.Err)
	}
}

func (s *Server) answer(ctx context.Context, req readRequest, t *Transfer) error {
	la := &net.UDPAddr{}
	if t.Local.IsValid() {
		la.IP = t.Local.AsSlice()
	}
	conn, err := net.DialUDP(
		"udp4",
		la,
		net.UDPAddrFromAddrPort(t.Peer),
	) // connected: other peers' packets do not arrive
	if err != nil {
		return fmt.Errorf("open a port: %w", err)
	}
	defer conn.Close()
	sockopt.Set(conn, sockopt.Message)
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	content, err := s.open(ctx, req, t)
	if err != nil {
		code, text := uint16(codeAccess), "access violation"
		if errors.Is(err, fs.ErrNotExist) {
			code, text = codeNotFound, "file not found"
		}
		_, _ = conn.Write(errorPacket(code, text))
		return err
	}
	if c, ok := content.(io.Closer); ok {
		defer c.Close()
	}
	t.Size = content.Size()
	tx := newSender(s, conn, req, content, t)
	err = tx.run()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("server stops: %w", ctx.Err())
	}
	var fromPeer *PeerError
	if err != nil && !errors.As(err, &fromPeer) {
		_, _ = conn.Write(errorPacket(codeUndefined, "transfer given up"))
	}
	return err
}

func (s *Server) open(ctx context.Context, req readRequest, t *Transfer) (Content, error) {
	name, err := clean(req.name)
	if err != nil {
		return nil, err
	}
	t.Name = name
	if s.Files == nil {
		return nil, fs.ErrNotExist
	}
	c, err := s.Files.Open(ctx, Request{Name: name, Peer: t.Peer, Local: t.Local})
	if err != nil || !req.netascii {
		return c, err
	}
	return netascii(c)
}

// sender is the state of one transfer.
type sender struct {
	conn    *net.UDPConn
	content Content
	t       *Transfer
	block   int   // bytes
	window  int   // blocks
	last    int64 // number of the last block, which is shorter than block and may be empty
	timeout time.Duration
	retries int
	first   time.Duration // time limit of the first acknowledgement
	acked   bool          // the first acknowledgement arrived
	oack    []byte        // nil: the peer sent no option
	out     []byte
}

func newSender(s *Server, conn *net.UDPConn, req readRequest, c Content, t *Transfer) *sender {
	tx := &sender{conn: conn, content: c, t: t, block: defaultBlock, window: 1,
		timeout: or(s.Timeout, DefaultTimeout), retries: or(s.Retries, DefaultRetries),
		first: or(s.FirstAck, firstAck)}
	if req.block > 0 {
		tx.block = min(req.block, or(s.MaxBlock, DefaultMaxBlock))
	}
	if req.window > 0 {
		tx.window = min(req.window, or(s.MaxWindow, DefaultMaxWindow))
	}
	if req.timeout > 0 {
		tx.timeout = time.Duration(req.timeout) * time.Second
	}
	tx.last = c.Size()/int64(tx.block) + 1
	if len(req.options) > 0 {
		tx.oack = optionAck(req.options, map[string]int64{"blksize": int64(tx.block), "windowsize": int64(tx.window),
			"timeout": int64(req.timeout), "tsize": c.Size()})
	}
	return tx
}

func optionAck(names []string, values map[string]int64) []byte {
	b := binary.BigEndian.AppendUint16(nil, opOption)
	for _, name := range names {
		b = append(append(b, name...), 0)
		b = append(strconv.AppendInt(b, values[name], 10), 0)
	}
	return b
}

// run sends everything. acked is the number of the last block that the peer has; the option
// acknowledgement counts as block 0.
func (tx *sender) run() error {
	if tx.oack != nil {
		send := func() error { _, err := tx.conn.Write(tx.oack); return err }
		if _, err := tx.exchange(0, 0, send); err != nil {
			return fmt.Errorf("negotiate options: %w", err)
		}
	}
	for acked := int64(0); acked < tx.last; {
		first, end := acked+1, min(acked+int64(tx.window), tx.last)
		send := func() error { return tx.sendBlocks(first, end) }
		n, err := tx.exchange(first, end, send)
		if err != nil {
			return err
		}
		acked = n
		tx.t.Bytes = min(acked*int64(tx.block), tx.t.Size)
	}
	return nil
}

func (tx *sender) sendBlocks(first, end int64) error {
	for n := first; n <= end; n++ {
		off := (n - 1) * int64(tx.block)
		size := min(int64(tx.block), tx.t.Size-off)
		tx.out = append(tx.out[:0], 0, opData)
		tx.out = binary.BigEndian.AppendUint16(tx.out, uint16(n))
		head := len(tx.out)
		tx.out = append(tx.out, make([]byte, size)...)
		if m, err := tx.content.ReadAt(tx.out[head:], off); int64(m) < size {
			return fmt.Errorf("read content at %d: %w", off, err)
		}
		if _, err := tx.conn.Write(tx.out); err != nil {
			return fmt.Errorf("send block %d: %w", n, err)
		}
	}
	return nil
}

// due returns the deadline of a wait: after timeout, but not after the time limit of the transfer.
func (tx *sender) due(timeout time.Duration) (time.Time, error) {
	end := tx.t.Started.Add(leastTime + time.Duration(tx.t.Size)*time.Second/leastRate)
	if !tx.acked {
		end = tx.t.Started.Add(tx.first)
	}
	now := time.Now()
	if !now.Before(end) {
		return end, errGone
	}
	if until := now.Add(timeout); until.Before(end) {
		return until, nil
	}
	return end, nil
}

// exchange sends blocks first to end, and waits until the peer acknowledges one of them. It sends again while the
// peer is silent. It returns the acknowledged block.
func (tx *sender) exchange(first, end int64, send func() error) (int64, error) {
	timeout := tx.timeout
	heed := tx.window > 1
	for try := 0; try <= tx.retries; {
		if err := send(); err != nil {
			return 0, gone(err)
		}
		until, err := tx.due(timeout)
		if err != nil {
			return 0, err
		}
		n, err := tx.await(first, end, heed, until)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			try++
			heed = tx.window > 1
			timeout = min(2*timeout, max(maxBackoff, tx.timeout))
		case errors.Is(err, errGap):
			// Only the first repeated acknowledgement counts: a peer sends one for each block that follows the gap.
			heed = false
		default:
			tx.acked = tx.acked || err == nil
			return n, err
		}
		tx.t.Retries++
	}
	return 0, errGone
}

// errGap means that the peer acknowledged the block before the window: it missed the window's first block.
var errGap = errors.New("first block of the window lost")

// await reads until the peer acknowledges a block of the window. heed: an acknowledgement of the block before the
// window means a gap.
func (tx *sender) await(first, end int64, heed bool, deadline time.Time) (int64, error) {
	if err := tx.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	var buf [512]byte
	for {
		n, err := tx.conn.Read(buf[:])
		switch {
		case err != nil:
			return 0, gone(err)
		case n < 4:
			continue
		}
		switch binary.BigEndian.Uint16(buf[:]) {
		case opError:
			return 0, parseError(buf[2:n])
		case opAck:
		default:
			continue
		}
		// The number is the low 16 bits of a block; a window is far shorter than 65536 blocks.
		ack := first + int64(int16(binary.BigEndian.Uint16(buf[2:])-uint16(first)))
		switch {
		case ack >= first && ack <= end:
			return ack, nil
		case ack == first-1 && heed:
			return 0, errGap
		}
		// Everything else is old. Answering a repeated acknowledgement would double every packet from there on
		// (the "sorcerer's apprentice" of RFC 1123 section 4.2.3.1).
	}
}

// gone turns the ICMP answer of a closed port into a PeerError: the peer wants no more.
func gone(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &PeerError{Code: codeUnknownTID, Message: "port closed"}
	}
	return err
}
