package nbd

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// script is a connection that sends the fuzzer's bytes and accepts any.
type script struct{ in *bytes.Reader }

func (s script) Read(p []byte) (int, error)       { return s.in.Read(p) }
func (s script) Write(p []byte) (int, error)      { return len(p), nil }
func (s script) Close() error                     { return nil }
func (s script) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (s script) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (s script) SetDeadline(time.Time) error      { return nil }
func (s script) SetReadDeadline(time.Time) error  { return nil }
func (s script) SetWriteDeadline(time.Time) error { return nil }

// FuzzServer sends a server any bytes, in handshake and transmission. The server must end, and never read outside of
// the device: memory.ReadAt would panic.
func FuzzServer(f *testing.F) {
	greeting := encode(uint32(flagFixedNewstyle | flagNoZeroes))
	enter := encode(greeting, uint64(magicOption), uint32(optExportName), uint32(4), "root")
	read := encode(uint32(magicRequest), uint16(0), uint16(cmdRead), uint64(1), uint64(4096), uint32(4096))
	write := encode(uint32(magicRequest), uint16(0), uint16(cmdWrite), uint64(1), uint64(0), uint32(4), "data")
	f.Add(encode(greeting, uint64(magicOption), uint32(optList), uint32(0)))
	f.Add(
		encode(greeting, uint64(magicOption), uint32(optGo), uint32(12), uint32(4), "root", uint16(1), uint16(3), read),
	)
	f.Add(encode(enter, read, write, read))
	f.Add(encode(enter, uint32(magicRequest), uint16(0), uint16(cmdRead), uint64(1), uint64(1<<63), uint32(1<<31)))
	f.Add(encode(enter, uint32(magicRequest), uint16(9), uint16(cmdFlush), uint64(1), uint64(0), uint32(0)))
	s := oneExport(65536)
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = s.ServeConn(t.Context(), script{bytes.NewReader(data)})
	})
}

// FuzzParseInfo checks that accepted values fit the input.
func FuzzParseInfo(f *testing.F) {
	f.Add(encode(uint32(4), "root", uint16(1), uint16(3)))
	f.Add(encode(uint32(0), uint16(0)))
	f.Add(encode(uint32(1<<32-1), uint16(1<<16-1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, wanted, err := parseInfo(data)
		if err == nil && 6+len(name)+2*len(wanted) != len(data) {
			t.Errorf("%d bytes gave a name of %d and %d requests", len(data), len(name), len(wanted))
		}
	})
}

// FuzzParseRequest checks that a request survives a round trip.
func FuzzParseRequest(f *testing.F) {
	f.Add(encode(uint32(magicRequest), uint16(1), uint16(cmdRead), uint64(1), uint64(2), uint32(3)))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRequest(data)
		if err != nil {
			return
		}
		b := encode(uint32(magicRequest), r.Flags, r.Command, r.Handle, r.Offset, r.Length)
		if !bytes.Equal(b, data[:requestSize]) {
			t.Errorf("request %x came back as %x", data[:requestSize], b)
		}
	})
}
