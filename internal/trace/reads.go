package trace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Read is one read request of a boot to its root file system.
type Read struct {
	Start, Blocks uint32        // in blocks of 4,096 bytes
	At            time.Duration // since the device was attached, in whole milliseconds
}

// End is the block after the last one of the request.
func (r Read) End() uint64 { return uint64(r.Start) + uint64(r.Blocks) }

// MaxReads is the limit of an encoded read trace, in bytes: more than 40,000 requests. A node records at most 32,768.
const MaxReads = 256 << 10

const (
	readsMagic  = "PNDR"
	readsFormat = 1
	readsHeader = 12 // magic (4), format (1), zeros (3), number of reads (4)
)

// maxAt bounds the time of a read, so that sums of times never overflow.
const maxAt = math.MaxUint32 * time.Millisecond

// EncodeReads returns the bytes of a read trace. Times are rounded down to milliseconds and never decrease. It leaves
// out empty reads and reads beyond the largest device, and drops reads at the end that exceed MaxReads.
func EncodeReads(reads []Read) []byte {
	b := append([]byte(readsMagic), readsFormat, 0, 0, 0, 0, 0, 0, 0)
	count, end, at := uint32(0), int64(0), int64(0)
	for _, r := range reads {
		if r.Blocks == 0 || r.End() > math.MaxUint32 {
			continue
		}
		now := max(at, min(r.At, maxAt).Milliseconds())
		full := len(b)
		b = binary.AppendVarint(b, int64(r.Start)-end)
		b = binary.AppendUvarint(b, uint64(r.Blocks))
		b = binary.AppendUvarint(b, uint64(now-at))
		if len(b) > MaxReads {
			b = b[:full]
			break
		}
		count, end, at = count+1, int64(r.End()), now
	}
	binary.LittleEndian.PutUint32(b[8:], count)
	return b
}

// DecodeReads is the inverse of EncodeReads. It accepts only bytes that EncodeReads would write.
func DecodeReads(data []byte) ([]Read, error) {
	switch {
	case len(data) > MaxReads:
		return nil, fmt.Errorf("read trace: %d bytes, more than %d", len(data), MaxReads)
	case len(data) < readsHeader || string(data[:4]) != readsMagic:
		return nil, fmt.Errorf("read trace: %d bytes that do not start with %q", len(data), readsMagic)
	case data[4] != readsFormat:
		return nil, fmt.Errorf("read trace: format %d, this Pando knows %d", data[4], readsFormat)
	}
	count, rest := int(binary.LittleEndian.Uint32(data[8:])), data[readsHeader:]
	if len(rest)/3 < count {
		return nil, fmt.Errorf("read trace: %d bytes do not hold %d reads", len(data), count)
	}
	reads := make([]Read, count)
	end, at := int64(0), int64(0)
	for i := range reads {
		delta, k := binary.Varint(rest)
		blocks, l := binary.Uvarint(rest[max(k, 0):])
		later, m := binary.Uvarint(rest[max(k, 0)+max(l, 0):])
		if k <= 0 || l <= 0 || m <= 0 {
			return nil, fmt.Errorf("read trace: read %d is cut off", i)
		}
		// A value that overflows encodes differently, so the comparison below refuses it.
		at += int64(later & math.MaxUint32)
		reads[i] = Read{Start: uint32(end + delta), Blocks: uint32(blocks), At: time.Duration(at) * time.Millisecond}
		end = int64(reads[i].End())
		rest = rest[k+l+m:]
	}
	if !bytes.Equal(EncodeReads(reads), data) {
		return nil, fmt.Errorf("read trace: %d bytes are not a canonical encoding", len(data))
	}
	return reads, nil
}
