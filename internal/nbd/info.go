package nbd

import (
	"encoding/binary"
	"errors"
)

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
