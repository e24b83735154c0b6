package peer

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
	"pando/internal/swarm"
)

// StartAsk is a boot that starts, as its node says it.
type StartAsk struct {
	Pack   chunk.ID // whose map it will need
	Prefix int      // length of its subnet's prefix; 0: not known
	Place  string   // "": not known
	Near   bool
}

// StartPeers asks trackers, preferred first, who has what a boot starts with. Whoever sends the files, they have to
// be verified.
func StartPeers(ctx context.Context, client *http.Client, trackers []string, q StartAsk) swarm.StartHelp {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type said struct {
		try swarm.StartTry
		a   swarm.StartReply
		err error
	}
	begin, answers := time.Now(), make(chan said, len(trackers))
	messages, bytes := new(atomic.Int64), new(atomic.Int64)
	asks := swarm.NewStartAsks(0, len(trackers))
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		tries, wake := asks.Next(time.Since(begin))
		for _, x := range tries {
			go func() {
				m := swarm.StartMessage{
					Pack:     q.Pack.String(),
					Prefix:   q.Prefix,
					Place:    q.Place,
					Near:     q.Near,
					Patience: x.Patience.Milliseconds(),
				}
				s := said{try: x}
				s.err = trackerClient{
					trackers[x.Tracker],
					client,
					bytes,
					messages,
				}.post(
					ctx,
					"start",
					m,
					&s.a,
					x.Patience,
				)
				answers <- s
			}()
		}
		h, over := asks.Help()
		if h.Said = (swarm.Control{Messages: messages.Load(), Bytes: bytes.Load()}); over {
			return h
		}
		wait.Stop()
		if wake > 0 {
			wait.Reset(max(0, wake-time.Since(begin)))
		}
		select {
		case s := <-answers:
			if s.err != nil {
				asks.Failed()
			} else {
				asks.Told(time.Since(begin), s.try.Tracker, swarm.StartAnswer{Peers: s.a.Peers, Again: s.a.Again, Late: swarm.Milliseconds(s.a.Late, swarm.LateMost)})
			}
		case <-wait.C:
		case <-ctx.Done():
			return h // what was said last holds
		}
	}
}

// Accuse tells a tracker that a peer sent wrong bytes. For those that are in no swarm yet; nothing is lost when it
// does not hear of it.
func Accuse(ctx context.Context, client *http.Client, tracker string, accused netip.AddrPort) error {
	t := trackerClient{tracker, client, &atomic.Int64{}, &atomic.Int64{}}
	return t.post(ctx, "wrong", swarm.WrongMessage{Peer: accused}, &struct{}{}, swarm.WordTime(0))
}
