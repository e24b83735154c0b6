package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Entered is what a server tells about an export.
type Entered struct {
	Size  int64  // bytes
	Flags uint16 // transmission flags, for KernelDevice
}

// Enter does the handshake of a connection for the export of that name. Give the connection to KernelDevice afterwards.
func Enter(c net.Conn, export string) (Entered, error) {
	about, err := enter(c, export)
	if err != nil {
		return Entered{}, fmt.Errorf("nbd export %q: %w", export, err)
	}
	return Entered{Size: int64(binary.BigEndian.Uint64(about)), Flags: binary.BigEndian.Uint16(about[8:])}, nil
}

// enter does the handshake with the option that every server knows. It returns size (8 bytes) and transmission flags
// (2), and padding.
func enter(c net.Conn, export string) ([]byte, error) {
	var greeting [18]byte
	if _, err := io.ReadFull(c, greeting[:]); err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint64(greeting[:]) != magicInit || binary.BigEndian.Uint64(greeting[8:]) != magicOption {
		return nil, errors.New("not an NBD server with the fixed newstyle handshake")
	}
	flags := binary.BigEndian.Uint16(greeting[16:]) & (flagFixedNewstyle | flagNoZeroes)
	b := binary.BigEndian.AppendUint32(nil, uint32(flags))
	b = binary.BigEndian.AppendUint64(b, magicOption)
	b = binary.BigEndian.AppendUint32(b, optExportName)
	b = binary.BigEndian.AppendUint32(b, uint32(len(export)))
	if _, err := c.Write(append(b, export...)); err != nil {
		return nil, err
	}
	about := make([]byte, 10)
	if flags&flagNoZeroes == 0 {
		about = make([]byte, 10+124)
	}
	_, err := io.ReadFull(c, about)
	return about, err
}
