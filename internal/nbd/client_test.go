package nbd

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// dialed returns a Client of a server of data.
func dialed(t *testing.T, data []byte, export string) (*Client, error) {
	t.Helper()
	path := listen(t, &exportServer{Exports: []Export{{Name: "root", Device: &memory{data: data}}}})
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Dialed(c, export)
	if err != nil {
		c.Close()
		return nil, err
	}
	t.Cleanup(func() { k.Close() })
	return k, nil
}

func TestClientReads(t *testing.T) {
	data := randomBytes(1 << 20)
	k, err := dialed(t, data, "root")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for off := 0; off < len(data); off += 32 << 10 {
		all.Go(func() {
			p := make([]byte, 32<<10)
			if _, err := k.ReadAt(p, int64(off)); err != nil || !bytes.Equal(p, data[off:][:len(p)]) {
				t.Errorf("read at %d: wrong bytes or %v", off, err)
			}
		})
	}
	all.Wait()
	var e Errno
	if _, err := k.ReadAt(make([]byte, 4096), int64(len(data))); !errors.As(err, &e) {
		t.Errorf("read beyond the end: got %v, want an error of the protocol", err)
	}
	if _, err := k.ReadAt(make([]byte, 4096), 0); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestClientOfAnExportThatIsNotThere(t *testing.T) {
	if k, err := dialed(t, randomBytes(4096), "boot"); err == nil {
		t.Errorf("got %v, want an error", k)
	}
}

// A server that closes the connection, or sends an unknown reply, ends all reads with an error.
func TestClientWhoseServerGoes(t *testing.T) {
	for name, last := range map[string][]byte{
		"nothing":         nil,
		"half a reply":    encode(uint32(magicSimple), uint32(0)),
		"another magic":   encode(uint32(1), uint32(0), uint64(0)),
		"another request": encode(uint32(magicSimple), uint32(0), uint64(99)),
		"half the data":   encode(uint32(magicSimple), uint32(0), uint64(0), "abc"),
	} {
		ours, theirs := net.Pipe()
		k := NewClient(ours)
		go func() {
			_, _ = io.ReadFull(theirs, make([]byte, requestSize))
			_, _ = theirs.Write(last)
			theirs.Close()
		}()
		if _, err := k.ReadAt(make([]byte, 4096), 0); err == nil {
			t.Errorf("%s: the read succeeded", name)
		}
		if _, err := k.ReadAt(make([]byte, 4096), 0); err == nil {
			t.Errorf("%s: a read after that succeeded", name)
		}
		k.Close()
	}
}
