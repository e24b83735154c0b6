package blockd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"

	"pando/internal/link"
)

// controlMessage is a line of JSON from the block daemon to its supervisor. The supervisor sends nothing. A closed
// socket means that the other process died.
type controlMessage struct {
	Ready   bool          `json:"ready,omitempty"`   // the daemon has the index and can answer reads
	Fail    string        `json:"fail,omitempty"`    // the daemon cannot become ready, and ends
	Network *link.Network `json:"network,omitempty"` // the network that the next daemon maintains
}

// controlConn is one end of the socket between supervisor and daemon.
type controlConn struct {
	net.Conn
	in *bufio.Scanner
}

// newControlConn makes a connection of a socket's file, and closes the file.
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

// receive returns the next message, or an error when the other end is closed.
func (c *controlConn) receive() (m controlMessage, err error) {
	if !c.in.Scan() {
		return m, fmt.Errorf("control socket closed (%v)", c.in.Err())
	}
	return m, json.Unmarshal(c.in.Bytes(), &m)
}

// drain reads until the other end is closed.
func (c *controlConn) drain() {
	for {
		if _, err := c.receive(); err != nil {
			return
		}
	}
}
