package nbd

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func oneExport(n int) *exportServer {
	return &exportServer{
		Exports: []Export{{Name: "root", Description: "a root", Device: &memory{data: randomBytes(n)}}},
	}
}

func TestHandshakeList(t *testing.T) {
	s := oneExport(8192)
	s.Exports = append(s.Exports, Export{Name: "other", Device: &memory{data: make([]byte, 4096)}})
	c := dial(t, listen(t, s))
	c.greeting()
	typ, data := c.option(optList, nil)
	if typ != repServer || string(data) != "\x00\x00\x00\x04roota root" {
		t.Errorf("first export: type %d, %q", typ, data)
	}
	typ, data = c.optionReply(optList)
	if typ != repServer || string(data) != "\x00\x00\x00\x05other" {
		t.Errorf("second export: type %d, %q", typ, data)
	}
	if typ, _ = c.optionReply(optList); typ != repAck {
		t.Errorf("end of list: type %#x", typ)
	}
	if typ, _ = c.option(optList, []byte{1}); typ != repErrInvalid {
		t.Errorf("LIST with data: type %#x, want an error", typ)
	}
}

func TestHandshakeInfoAndGo(t *testing.T) {
	c := dial(t, listen(t, oneExport(8192)))
	c.greeting()
	all := encode(uint32(4), "root", uint16(3), uint16(infoName), uint16(infoDescription), uint16(infoBlockSize))
	want := [][]byte{
		encode(uint16(infoExport), uint64(8192), uint16(exportFlags)),
		encode(uint16(infoName), "root"),
		encode(uint16(infoDescription), "a root"),
		encode(uint16(infoBlockSize), uint32(1), uint32(4096), uint32(MaxRequest)),
	}
	typ, data := c.option(optInfo, all)
	for i, w := range want {
		if typ != repInfo || !bytes.Equal(data, w) {
			t.Errorf("INFO answer %d: type %#x, %x, want %x", i, typ, data, w)
		}
		typ, data = c.optionReply(optInfo)
	}
	if typ != repAck {
		t.Errorf("INFO ends with type %#x", typ)
	}
	if typ, _ := c.option(optGo, encode(uint32(4), "nope", uint16(0))); typ != repErrUnknown {
		t.Errorf("GO to an unknown export: type %#x", typ)
	}
	if typ, _ := c.option(optGo, encode(uint32(0), uint16(0))); typ != repInfo {
		t.Errorf("GO to the default export: type %#x", typ)
	}
	if typ, _ := c.optionReply(optGo); typ != repAck {
		t.Errorf("GO ends with type %#x", typ)
	}
	c.request(cmdRead, 7, 4096, 4096)
	if h, e := c.reply(); h != 7 || e != 0 {
		t.Fatalf("read: handle %d, %v", h, e)
	}
	if got := c.recv(4096); !bytes.Equal(got, randomBytes(8192)[4096:]) {
		t.Error("read brought other bytes")
	}
}

func TestHandshakeBadOptions(t *testing.T) {
	c := dial(t, listen(t, oneExport(8192)))
	c.greeting()
	for name, data := range map[string][]byte{
		"empty":                   nil,
		"name longer than option": encode(uint32(5), "root", uint16(0)),
		"huge name":               encode(uint32(1<<31), "root", uint16(0)),
		"missing requests":        encode(uint32(4), "root", uint16(2), uint16(1)),
		"trailing bytes":          encode(uint32(4), "root", uint16(0), uint16(1)),
	} {
		if typ, _ := c.option(optGo, data); typ != repErrInvalid {
			t.Errorf("%s: type %#x, want an error", name, typ)
		}
	}
	if typ, _ := c.option(optGo, make([]byte, maxOption+1)); typ != repErrTooBig {
		t.Errorf("long option: type %#x", typ)
	}
	for _, opt := range []uint32{0, 4, 5, 8, 9, 10, 11, 1 << 31} {
		if typ, _ := c.option(opt, nil); typ != repErrUnsup {
			t.Errorf("option %d: type %#x, want unsupported", opt, typ)
		}
	}
	if typ, _ := c.option(optAbort, nil); typ != repAck {
		t.Errorf("ABORT: type %#x", typ)
	}
	c.closed()
}

func TestHandshakeCutOff(t *testing.T) {
	path := listen(t, oneExport(8192))
	for name, talk := range map[string]func(c client){
		"unknown flags": func(c client) { c.recv(18); c.send(uint32(1 << 5)) },
		"wrong magic":   func(c client) { c.greeting(); c.send(uint64(1), uint32(optGo), uint32(0)) },
		"giant option":  func(c client) { c.greeting(); c.send(uint64(magicOption), uint32(9), uint32(1<<31)) },
		"unknown name":  func(c client) { c.greeting(); c.send(uint64(magicOption), uint32(1), uint32(3), "abc") },
		"http":          func(c client) { c.recv(18); c.send(strings.Repeat("GET / HTTP/1.1\r\n", 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, path)
			c.t = t
			talk(c)
			c.closed()
		})
	}
}

func TestExportNameWithZeroes(t *testing.T) {
	c := dial(t, listen(t, oneExport(8192)))
	c.recv(18)
	c.send(uint32(flagFixedNewstyle), uint64(magicOption), uint32(optExportName), uint32(4), "root")
	b := c.recv(10 + 124)
	if binary.BigEndian.Uint64(b) != 8192 || !bytes.Equal(b[10:], make([]byte, 124)) {
		t.Errorf("answer is %x", b)
	}
}
