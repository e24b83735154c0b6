package boot

import (
	"context"
	"net"
	"strconv"
	"time"

	"pando/internal/swarm"
)

// nudgePause is how long after a nudge others are not heard: anybody can send them, and each costs a report.
const nudgePause = time.Second

// hearNudges has the agent speak at once when the server wants a word: a datagram to the port at which peers ask by
// TCP. It says nothing, so nothing in it is believed; where it does not arrive the node speaks when it would have
// anyway.
func (a *agent) hearNudges(ctx context.Context) {
	var c net.ListenConfig
	conn, err := c.ListenPacket(ctx, "udp", ":"+strconv.Itoa(swarm.Port))
	if err != nil {
		a.logf("nudges are not heard: %v", err)
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
		a.nudged.Store(true)
		a.kick()
	}
}
