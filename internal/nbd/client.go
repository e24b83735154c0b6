package nbd

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// Client is the reading side of a connection, in place of the kernel. Reads may run concurrently, and are answered in
// any order.
type Client struct {
	conn net.Conn

	mu      sync.Mutex // also held while writing
	next    uint64
	waiting map[uint64]*reading
	err     error // why the connection has ended
}

type reading struct {
	p    []byte
	done chan error
}

// NewClient returns a client for a connection that is past its handshake, such as one for KernelDevice. Close it.
func NewClient(c net.Conn) *Client {
	k := &Client{conn: c, waiting: map[uint64]*reading{}}
	go k.receive()
	return k
}

// Dialed returns a Client for a new connection to a server. It does the handshake for the export of that name.
func Dialed(c net.Conn, export string) (*Client, error) {
	if _, err := enter(c, export); err != nil {
		return nil, fmt.Errorf("nbd export %q: %w", export, err)
	}
	return NewClient(c), nil
}

// ReadAt fills p from off.
func (k *Client) ReadAt(p []byte, off int64) (int, error) {
	r := &reading{p, make(chan error, 1)}
	if err := k.send(r, off); err != nil {
		return 0, err
	}
	if err := <-r.done; err != nil {
		return 0, fmt.Errorf("nbd read of %d bytes at %d: %w", len(p), off, err)
	}
	return len(p), nil
}

func (k *Client) send(r *reading, off int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	handle := k.next
	k.next++
	k.waiting[handle] = r
	b := binary.BigEndian.AppendUint32(nil, magicRequest)
	b = binary.BigEndian.AppendUint32(b, cmdRead) // no flags
	b = binary.BigEndian.AppendUint64(b, handle)
	b = binary.BigEndian.AppendUint64(b, uint64(off))
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.p)))
	if _, err := k.conn.Write(b); err != nil {
		delete(k.waiting, handle)
		return err
	}
	return nil
}

// receive passes replies to the waiting reads, until the connection ends.
func (k *Client) receive() {
	for {
		if err := k.answer(); err != nil {
			k.mu.Lock()
			k.err = err
			for _, r := range k.waiting {
				r.done <- err
			}
			clear(k.waiting)
			k.mu.Unlock()
			return
		}
	}
}

func (k *Client) answer() error {
	var head [replySize]byte
	if _, err := io.ReadFull(k.conn, head[:]); err != nil {
		return err
	}
	if m := binary.BigEndian.Uint32(head[:]); m != magicSimple {
		return fmt.Errorf("nbd reply: magic %#x, want %#x", m, uint32(magicSimple))
	}
	handle := binary.BigEndian.Uint64(head[8:])
	k.mu.Lock()
	r := k.waiting[handle]
	delete(k.waiting, handle)
	k.mu.Unlock()
	if r == nil {
		return fmt.Errorf("nbd reply: unknown request %d", handle)
	}
	if e := Errno(binary.BigEndian.Uint32(head[4:])); e != 0 {
		r.done <- e
		return nil
	}
	_, err := io.ReadFull(k.conn, r.p)
	r.done <- err
	return err
}

// Close ends the connection as the kernel does: it sends a disconnect first, so that the server does not wait for
// another request.
func (k *Client) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := binary.BigEndian.AppendUint32(nil, magicRequest)
	b = binary.BigEndian.AppendUint32(b, cmdDisconnect)
	_, _ = k.conn.Write(append(b, make([]byte, 20)...)) // the server may be gone already
	return k.conn.Close()
}
