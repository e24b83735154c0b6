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

// wakePause is the shortest time between two wake-ups by the network. Anybody can send wake-ups, and each costs a
// report.
const wakePause = time.Second

// waker makes the agent's loop run before its timer.
type waker struct {
	wakes chan struct{} // holds an element when the loop is to run
	woken atomic.Bool   // the server wants a report
	log   io.Writer
}

func newWaker(log io.Writer) *waker { return &waker{wakes: make(chan struct{}, 1), log: log} }

func (w *waker) logf(format string, args ...any) { fmt.Fprintf(w.log, format+"\n", args...) }

// listenUDP receives the server's wake-ups: datagrams to the UDP port with the number of the peers' TCP port. Their
// content is ignored. If one is lost, the node reports at its usual time.
func (w *waker) listenUDP(ctx context.Context) {
	var c net.ListenConfig
	conn, err := c.ListenPacket(ctx, "udp", ":"+strconv.Itoa(swarm.Port))
	if err != nil {
		w.logf("cannot listen for wake-ups: %v", err)
		return
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	var last time.Time
	for b := make([]byte, 16); ; {
		if _, _, err := conn.ReadFrom(b); err != nil {
			if ctx.Err() != nil {
				return
			}
			time.Sleep(wakePause)
			continue
		}
		if time.Since(last) < wakePause {
			continue
		}
		last = time.Now()
		w.woken.Store(true)
		w.Wake()
	}
}

// Wake makes the loop run at once.
func (w *waker) Wake() {
	select {
	case w.wakes <- struct{}{}:
	default:
	}
}

// listenMarks wakes the loop when `pando-init mark` has written a mark.
func (w *waker) listenMarks(ctx context.Context, dir string) {
	path := filepath.Join(dir, rundir.AgentSocket)
	_ = os.Remove(path)
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		w.logf("cannot listen for marks: %v", err) // the loop still finds marks at its usual time
		return
	}
	context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		for b := make([]byte, 16); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			w.Wake()
		}
	}()
}
