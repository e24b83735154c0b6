package blockd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"

	"pando/internal/link"
)

// controlMessage is a line from the block daemon to its supervisor. The other direction carries nothing; a closed
// socket means that the other process died.
type controlMessage struct {
	Ready   bool          `json:"ready,omitempty"`   // the index is there; reads can be answered
	Fail    string        `json:"fail,omitempty"`    // it can never be ready; the daemon ends
	Network *link.Network `json:"network,omitempty"` // what the next daemon shall keep up
}

// controlConn is one end of the socket between the two.
type controlConn struct {
	net.Conn
	in *bufio.Scanner
}

// newControlConn takes f over.
func newControlConn(f *os.File) (*controlConn, error) {
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return &controlConn{c, bufio.NewScanner(c)}, nil
}

func (c *controlConn) send(m controlMessage) error {
	b, err := json.Marshal(m)
	if err == nil {
		_, err = c.Write(append(b, '\n'))
	}
	return err
}

// receive returns the next message, or an error when the other end is gone.
func (c *controlConn) receive() (m controlMessage, err error) {
	if !c.in.Scan() {
		return m, fmt.Errorf("control socket closed (%v)", c.in.Err())
	}
	return m, json.Unmarshal(c.in.Bytes(), &m)
}

// drain returns when the other end is gone.
func (c *controlConn) drain() {
	for {
		if _, err := c.receive(); err != nil {
			return
		}
	}
}
