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

// JoinOptions describe a node that joins.
type JoinOptions struct {
	Pack      chunk.ID // of the map that it will need
	Prefix    int      // length of its subnet's prefix; 0: not known
	Location  string   // "": not known
	LocalOnly bool
}

// Join asks trackers, the preferred one first, for nodes that have the bootstrap files. The caller must verify the
// files that those nodes send.
func Join(ctx context.Context, client *http.Client, trackers []string, q JoinOptions) swarm.JoinResult {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reply struct {
		try swarm.JoinAttempt
		a   swarm.JoinReplyMessage
		err error
	}
	begin, answers := time.Now(), make(chan reply, len(trackers))
	messages, bytes := new(atomic.Int64), new(atomic.Int64)
	asks := swarm.NewJoiner(0, len(trackers))
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		tries, wake := asks.Next(time.Since(begin))
		for _, x := range tries {
			go func() {
				m := swarm.JoinMessage{
					Pack:      q.Pack.String(),
					Prefix:    q.Prefix,
					Location:  q.Location,
					LocalOnly: q.LocalOnly,
					Patience:  x.Timeout.Milliseconds(),
				}
				s := reply{try: x}
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
					x.Timeout,
				)
				answers <- s
			}()
		}
		h, over := asks.Result()
		if h.Control = (swarm.Control{Messages: messages.Load(), Bytes: bytes.Load()}); over {
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
				asks.Answered(time.Since(begin), s.try.Tracker, swarm.JoinReply{
					Peers:         s.a.Peers,
					Again:         s.a.Again,
					AnnounceDelay: swarm.Milliseconds(s.a.AnnounceDelay, swarm.MaxAnnounceDelay),
				})
			}
		case <-wait.C:
		case <-ctx.Done():
			return h // the last reply holds
		}
	}
}

// ReportCorrupt tells a tracker that a peer sent wrong bytes, for a node that is in no swarm yet. A lost report does no
// harm.
func ReportCorrupt(ctx context.Context, client *http.Client, tracker string, accused netip.AddrPort) error {
	t := trackerClient{tracker, client, &atomic.Int64{}, &atomic.Int64{}}
	return t.post(ctx, "wrong", swarm.CorruptMessage{Peer: accused}, &struct{}{}, swarm.MessageTimeout(0))
}
