package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Operation codes (RFC 1350 section 5, RFC 2347).
const (
	opRead   = 1
	opWrite  = 2
	opData   = 3
	opAck    = 4
	opError  = 5
	opOption = 6
)

// Error codes (RFC 1350 appendix I, RFC 2347).
const (
	codeUndefined  = 0
	codeNotFound   = 1
	codeAccess     = 2
	codeIllegal    = 4
	codeUnknownTID = 5
	codeOption     = 8
)

// Bounds of the options. RFC 2348: blksize 8 to 65464; RFC 2349: timeout 1 to 255 s, of which this server accepts up
// to maxTimeout; RFC 7440: windowsize 1 to 65535.
const (
	minBlock     = 8
	defaultBlock = 512
	maxBlock     = 65464
)

// readRequest is a decoded RRQ. A number is 0 if the peer did not send the option.
type readRequest struct {
	name     string // as sent
	netascii bool
	block    int
	window   int
	timeout  int // seconds
	size     bool
	options  []string // names of the understood options, lower case, in the order sent
}

var errMalformed = errors.New("malformed request")

// parseRequest decodes the packet after its operation code. It leaves out options that it does not understand and
// values that are out of bounds, as RFC 2347 wants: the peer sees that they were not acknowledged.
func parseRequest(b []byte) (readRequest, error) {
	fields := bytes.Split(b, []byte{0})
	// The last field must be empty: it is what follows the last NUL. Some firmware pads the packet with more.
	if len(fields) < 3 || len(fields[len(fields)-1]) != 0 || len(fields) > 64 {
		return readRequest{}, errMalformed
	}
	r := readRequest{name: string(fields[0])}
	switch mode := strings.ToLower(string(fields[1])); mode {
	case "octet":
	case "netascii":
		r.netascii = true
	default:
		return readRequest{}, fmt.Errorf("%w: mode %.20q is neither octet nor netascii", errMalformed, mode)
	}
	for i := 2; i+1 < len(fields); i += 2 {
		r.option(strings.ToLower(string(fields[i])), string(fields[i+1]))
	}
	return r, nil
}

func (r *readRequest) option(name, value string) {
	n, err := strconv.ParseUint(value, 10, 31)
	v := int(n)
	switch {
	case err != nil:
		return
	case name == "blksize" && r.block == 0 && v >= minBlock:
		r.block = min(v, maxBlock)
	case name == "windowsize" && r.window == 0 && v >= 1:
		r.window = v
	case name == "timeout" && r.timeout == 0 && v >= 1 && v <= maxTimeout:
		r.timeout = v
	case name == "tsize" && !r.size:
		r.size = true
	default:
		return
	}
	r.options = append(r.options, name)
}

func errorPacket(code uint16, message string) []byte {
	b := binary.BigEndian.AppendUint16(nil, opError)
	b = binary.BigEndian.AppendUint16(b, code)
	return append(append(b, message...), 0)
}

// parseError reads an error packet after its operation code.
func parseError(b []byte) *PeerError {
	e := &PeerError{}
	if len(b) >= 2 {
		e.Code = binary.BigEndian.Uint16(b)
		text, _, _ := bytes.Cut(b[2:], []byte{0})
		e.Message = strings.ToValidUTF8(string(text[:min(len(text), 120)]), "?")
	}
	return e
}
