package media

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A list of writes is sent one after the other, each after its offset and length (8 bytes each, big-endian). Offset -1
// ends the list, so that the receiver detects a truncated list.
const wireEnd = -1

// Send writes a list of writes to a stream.
func Send(w io.Writer, writes []Write) error {
	for _, x := range writes {
		if err := sendHead(w, x.At, int64(len(x.Data))); err != nil {
			return err
		}
		if _, err := w.Write(x.Data); err != nil {
			return err
		}
	}
	return sendHead(w, wireEnd, 0)
}

func sendHead(w io.Writer, at, size int64) error {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(at))
	binary.BigEndian.PutUint64(b[8:], uint64(size))
	_, err := w.Write(b[:])
	return err
}

// Disk is the target of writes.
type Disk interface {
	io.WriterAt
	Sync() error // returns when everything written is durable
}

// step is how much of a write is in memory at a time.
const step = 1 << 20

// Carry performs the writes of a stream, and refuses those beyond the disk's size. It returns how many bytes it wrote.
func Carry(disk Disk, size int64, r io.Reader) (int64, error) {
	var sum int64
	buf := make([]byte, step)
	for {
		var head [16]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return sum, fmt.Errorf("boot medium: %w", cutOff(err))
		}
		at, length := int64(binary.BigEndian.Uint64(head[:])), int64(binary.BigEndian.Uint64(head[8:]))
		if at == wireEnd {
			return sum, nil
		}
		if at < 0 || length < 0 || at > size || length > size-at {
			return sum, fmt.Errorf("boot medium: a write of %d bytes at %d does not fit %d bytes", length, at, size)
		}
		for end := at + length; at < end; {
			part := buf[:min(step, end-at)]
			if _, err := io.ReadFull(r, part); err != nil {
				return sum, fmt.Errorf("boot medium: %w", cutOff(err))
			}
			n, err := disk.WriteAt(part, at)
			sum += int64(n)
			if err != nil {
				return sum, err
			}
			at += int64(n)
		}
		if err := disk.Sync(); err != nil {
			return sum, err
		}
	}
}

// cutOff returns the error of a stream that ends too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
