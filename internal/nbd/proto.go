package nbd

import (
	"encoding/binary"
	"fmt"
)

// Magic numbers of the protocol.
const (
	magicInit    = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption  = 0x49484156454f5054 // "IHAVEOPT"
	magicRequest = 0x25609513
	magicSimple  = 0x67446698 // simple reply to a request
)

// Handshake flags of the server and of the client; the two have the same values.
const (
	flagFixedNewstyle = 1 << 0
	flagNoZeroes      = 1 << 1
)

// Transmission flags that KernelDevice gives to the kernel.
const (
	flagHasFlags = 1 << 0
	flagReadOnly = 1 << 1
)

// optExportName is the option of the handshake that every server knows.
const optExportName = 1

// Commands of the transmission.
const (
	cmdRead        = 0
	cmdWrite       = 1
	cmdDisconnect  = 2
	cmdFlush       = 3
	cmdTrim        = 4
	cmdWriteZeroes = 6
)

// cmdFlagFUA may be set on any command and has no effect on a read-only export.
const cmdFlagFUA = 1 << 0

// Errno is an error value of the protocol. The values are those of Linux.
type Errno uint32

// The error values that this server sends.
const (
	EPERM     Errno = 1
	EIO       Errno = 5
	EINVAL    Errno = 22
	EOVERFLOW Errno = 75
	ESHUTDOWN Errno = 108
)

// Error makes Errno an error, so that a Device can choose the value that is sent.
func (e Errno) Error() string {
	switch e {
	case EPERM:
		return "nbd: operation not permitted"
	case EIO:
		return "nbd: input/output error"
	case EINVAL:
		return "nbd: invalid argument"
	case EOVERFLOW:
		return "nbd: request too large"
	case ESHUTDOWN:
		return "nbd: server is shutting down"
	}
	return fmt.Sprintf("nbd: error %d", uint32(e))
}

// requestSize is the length of a request on the wire, without a payload.
const requestSize = 28

// request is one command of the transmission.
type request struct {
	Flags   uint16
	Command uint16
	Handle  uint64 // chosen by the client, sent back unchanged
	Offset  uint64
	Length  uint32
}

// parseRequest decodes b, which is requestSize bytes long. An error means that the framing is lost.
func parseRequest(b []byte) (request, error) {
	if len(b) < requestSize {
		return request{}, fmt.Errorf("nbd request: %d bytes, want %d", len(b), requestSize)
	}
	if m := binary.BigEndian.Uint32(b); m != magicRequest {
		return request{}, fmt.Errorf("nbd request: magic %#x, want %#x", m, magicRequest)
	}
	return request{
		Flags:   binary.BigEndian.Uint16(b[4:]),
		Command: binary.BigEndian.Uint16(b[6:]),
		Handle:  binary.BigEndian.Uint64(b[8:]),
		Offset:  binary.BigEndian.Uint64(b[16:]),
		Length:  binary.BigEndian.Uint32(b[24:]),
	}, nil
}

// replySize is the length of a simple reply without data.
const replySize = 16

// putReply encodes the head of a simple reply into b.
func putReply(b *[replySize]byte, handle uint64, e Errno) {
	binary.BigEndian.PutUint32(b[0:], magicSimple)
	binary.BigEndian.PutUint32(b[4:], uint32(e))
	binary.BigEndian.PutUint64(b[8:], handle)
}
