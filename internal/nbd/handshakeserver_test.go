package nbd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// exportServer does the handshake with clients other than the kernel, so that foreign programs can read from Server.
type exportServer struct {
	Server
	Exports []Export
}

// Export is one device as clients see it.
type Export struct {
	Name        string // "": the export of a client that names none
	Description string
	Device      Device
}

const (
	maxOption     = 16 << 10 // bytes; longer options are skipped
	maxName       = 4096
	handshakeTime = 30 * time.Second
)

// Handshake flag and constants that only a server needs.
const (
	magicReply = 0x0003e889045565a9 // answer to an option

	flagCanMultiConn = 1 << 8
	exportFlags      = flagHasFlags | flagReadOnly | flagCanMultiConn

	optAbort = 2
	optList  = 3
	optInfo  = 6
	optGo    = 7

	repAck        = 1
	repServer     = 2
	repInfo       = 3
	repErrUnsup   = 1<<31 + 1
	repErrInvalid = 1<<31 + 3
	repErrUnknown = 1<<31 + 6
	repErrTooBig  = 1<<31 + 9

	infoExport      = 0
	infoName        = 1
	infoDescription = 2
	infoBlockSize   = 3
)

// Serve accepts clients on l until ctx is done, and returns after the last connection ended. It closes l.
func (s *exportServer) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			l.Close()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("nbd: accept on %s: %w", l.Addr(), err)
		}
		conns.Go(func() {
			_ = s.ServeConn(ctx, c) // a client that breaks the protocol is disconnected
		})
	}
}

// ServeConn does the handshake with one client and serves it. It returns nil when the client disconnected or hung up
// between requests. It closes c.
func (s *exportServer) ServeConn(ctx context.Context, c net.Conn) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return fmt.Errorf("nbd handshake: %w", err)
	}
	dev, err := (&handshake{conn: c, exports: s.Exports}).run()
	if err != nil || dev == nil {
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("nbd handshake: %w", err)
	}
	return s.transmit(ctx, c, dev)
}

// handshake is the fixed newstyle handshake with one client.
type handshake struct {
	conn     net.Conn
	exports  []Export
	noZeroes bool
}

// run returns the device that the client picked, or nil when the client aborted properly.
func (h *handshake) run() (Device, error) {
	var greeting []byte
	greeting = binary.BigEndian.AppendUint64(greeting, magicInit)
	greeting = binary.BigEndian.AppendUint64(greeting, magicOption)
	greeting = binary.BigEndian.AppendUint16(greeting, flagFixedNewstyle|flagNoZeroes)
	if _, err := h.conn.Write(greeting); err != nil {
		return nil, fmt.Errorf("nbd handshake: %w", err)
	}
	var b [4]byte
	if _, err := io.ReadFull(h.conn, b[:]); err != nil {
		return nil, fmt.Errorf("nbd handshake: client flags: %w", err)
	}
	flags := binary.BigEndian.Uint32(b[:])
	if flags&^(flagFixedNewstyle|flagNoZeroes) != 0 {
		return nil, fmt.Errorf("nbd handshake: unknown client flags %#x", flags)
	}
	h.noZeroes = flags&flagNoZeroes != 0
	for {
		opt, data, err := h.readOption()
		if err != nil {
			return nil, err
		}
		dev, done, err := h.option(opt, data)
		if err != nil || done {
			return dev, err
		}
	}
}

// readOption reads one option. Data is nil when it was too long and was skipped.
func (h *handshake) readOption() (opt uint32, data []byte, err error) {
	var head [16]byte
	if _, err := io.ReadFull(h.conn, head[:]); err != nil {
		return 0, nil, fmt.Errorf("nbd handshake: option: %w", err)
	}
	if m := binary.BigEndian.Uint64(head[:]); m != magicOption {
		return 0, nil, fmt.Errorf("nbd handshake: option magic %#x, want %#x", m, uint64(magicOption))
	}
	opt = binary.BigEndian.Uint32(head[8:])
	n := binary.BigEndian.Uint32(head[12:])
	if n > MaxRequest {
		return 0, nil, fmt.Errorf("nbd handshake: option %d of %d bytes", opt, n)
	}
	if n > maxOption {
		_, err = io.CopyN(io.Discard, h.conn, int64(n))
	} else {
		data = make([]byte, n)
		_, err = io.ReadFull(h.conn, data)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("nbd handshake: option %d: %w", opt, err)
	}
	return opt, data, nil
}

// option answers one option; done ends the handshake, with a device or without.
func (h *handshake) option(opt uint32, data []byte) (dev Device, done bool, err error) {
	switch {
	case data == nil:
		return nil, false, h.reply(opt, repErrTooBig, []byte("option is too long"))
	case opt == optExportName:
		dev, err = h.exportName(data)
		return dev, true, err
	case opt == optAbort:
		// The protocol allows the client to hang up without waiting for the answer.
		_ = h.reply(opt, repAck, nil)
		return nil, true, nil
	case opt == optList:
		return nil, false, h.list(data)
	case opt == optInfo, opt == optGo:
		dev, err = h.info(opt, data)
		return dev, dev != nil && opt == optGo, err
	}
	return nil, false, h.reply(opt, repErrUnsup, nil)
}

// exportName handles the option of older clients. The only way to refuse it is to hang up.
func (h *handshake) exportName(name []byte) (Device, error) {
	e := h.find(string(name))
	if e == nil {
		return nil, fmt.Errorf("nbd handshake: no export %q", name)
	}
	var b []byte
	b = binary.BigEndian.AppendUint64(b, uint64(e.Device.Size()))
	b = binary.BigEndian.AppendUint16(b, exportFlags)
	if !h.noZeroes {
		b = append(b, make([]byte, 124)...)
	}
	if _, err := h.conn.Write(b); err != nil {
		return nil, fmt.Errorf("nbd handshake: %w", err)
	}
	return e.Device, nil
}

func (h *handshake) list(data []byte) error {
	if len(data) != 0 {
		return h.reply(optList, repErrInvalid, []byte("LIST takes no data"))
	}
	for _, e := range h.exports {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(e.Name)))
		b = append(append(b, e.Name...), e.Description...)
		if err := h.reply(optList, repServer, b); err != nil {
			return err
		}
	}
	return h.reply(optList, repAck, nil)
}

// info answers INFO and GO. It returns the device when the export exists.
func (h *handshake) info(opt uint32, data []byte) (Device, error) {
	name, wanted, err := parseInfo(data)
	if err != nil {
		return nil, h.reply(opt, repErrInvalid, []byte(err.Error()))
	}
	e := h.find(name)
	if e == nil {
		return nil, h.reply(opt, repErrUnknown, []byte("no such export"))
	}
	for _, b := range infoReplies(e, wanted) {
		if err := h.reply(opt, repInfo, b); err != nil {
			return nil, err
		}
	}
	return e.Device, h.reply(opt, repAck, nil)
}

func (h *handshake) find(name string) *Export {
	for i := range h.exports {
		if h.exports[i].Name == name {
			return &h.exports[i]
		}
	}
	// The default export: with one device, an empty name means that device.
	if name == "" && len(h.exports) == 1 {
		return &h.exports[0]
	}
	return nil
}

func (h *handshake) reply(opt, typ uint32, data []byte) error {
	b := binary.BigEndian.AppendUint64(nil, magicReply)
	b = binary.BigEndian.AppendUint32(b, opt)
	b = binary.BigEndian.AppendUint32(b, typ)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	if _, err := h.conn.Write(append(b, data...)); err != nil {
		return fmt.Errorf("nbd handshake: answer to option %d: %w", opt, err)
	}
	return nil
}

// parseInfo decodes the data of INFO and GO: a name with its length in front, a count, and as many
// information types.
func parseInfo(b []byte) (name string, wanted []uint16, err error) {
	if len(b) < 6 {
		return "", nil, errors.New("shorter than its fixed part")
	}
	n := binary.BigEndian.Uint32(b)
	if n > maxName || int(n) > len(b)-6 {
		return "", nil, errors.New("name is longer than the option or than 4096 bytes")
	}
	name, b = string(b[4:4+n]), b[4+n:]
	count := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if len(b) != 2*count {
		return "", nil, errors.New("number of information requests does not fit")
	}
	for ; len(b) > 0; b = b[2:] {
		wanted = append(wanted, binary.BigEndian.Uint16(b))
	}
	return name, wanted, nil
}

// infoReplies returns the data of each INFO answer: the export always, the rest when it was asked for.
func infoReplies(e *Export, wanted []uint16) [][]byte {
	b := binary.BigEndian.AppendUint16(nil, infoExport)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Device.Size()))
	out := [][]byte{binary.BigEndian.AppendUint16(b, exportFlags)}
	seen := map[uint16]bool{}
	for _, w := range wanted {
		if seen[w] {
			continue
		}
		seen[w] = true
		switch w {
		case infoName:
			out = append(out, append(binary.BigEndian.AppendUint16(nil, infoName), e.Name...))
		case infoDescription:
			out = append(out, append(binary.BigEndian.AppendUint16(nil, infoDescription), e.Description...))
		case infoBlockSize:
			b := binary.BigEndian.AppendUint16(nil, infoBlockSize)
			b = binary.BigEndian.AppendUint32(b, 1)    // smallest
			b = binary.BigEndian.AppendUint32(b, 4096) // preferred: the file system's block
			out = append(out, binary.BigEndian.AppendUint32(b, MaxRequest))
		}
	}
	return out
}
