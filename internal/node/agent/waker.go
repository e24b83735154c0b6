package agent

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"pando/internal/rundir"
	"pando/internal/swarm"
)

// nudgePause is how long after a nudge others are not heard: anybody can send them, and each costs a report.
const nudgePause = time.Second

// waker has the agent's loop look and speak before its time.
type waker struct {
	kicks  chan struct{} // something is to be said
	nudged atomic.Bool   // the server wants a word
	log    io.Writer
}

func newWaker(log io.Writer) *waker { return &waker{kicks: make(chan struct{}, 1), log: log} }

func (w *waker) logf(format string, args ...any) { fmt.Fprintf(w.log, format+"\n", args...) }

// hear has the agent speak at once when the server wants a word: a datagram to the port at which peers ask by
// TCP. It says nothing, so nothing in it is believed; where it does not arrive the node speaks when it would have
// anyway.
func (w *waker) hear(ctx context.Context) {
	var c net.ListenConfig
	conn, err := c.ListenPacket(ctx, "udp", ":"+strconv.Itoa(swarm.Port))
	if err != nil {
		w.logf("nudges are not heard: %v", err)
		return
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	var last time.Time
	for b := make([]byte, 16); ; {
		if _, _, err := conn.ReadFrom(b); err != nil {
			if ctx.Err() != nil {
				return
			}
			time.Sleep(nudgePause)
			continue
		}
		if time.Since(last) < nudgePause {
			continue
		}
		last = time.Now()
		w.nudged.Store(true)
		w.Kick()
	}
}

// Kick has the loop look and speak at once.
func (w *waker) Kick() {
	select {
	case w.kicks <- struct{}{}:
	default:
	}
}

// listen kicks when a mark was made.
func (w *waker) listen(ctx context.Context, dir string) {
	path := filepath.Join(dir, rundir.AgentSocket)
	_ = os.Remove(path)
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		w.logf("listen: %v", err) // marks are still found by looking
		return
	}
	context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		for b := make([]byte, 16); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			w.Kick()
		}
	}()
}
