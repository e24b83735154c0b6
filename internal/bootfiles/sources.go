package bootfiles

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/swarm"
	"pando/internal/swarm/peer"
)

// How long a peer may take for one of these files, and a server for all of them. Both get more time on a network where
// the tracker announces delays.
const (
	startPatience  = 2 * time.Second
	serverPatience = 20 * time.Second
)

// Source is a peer or a server that sends manifest, signature and the map of the boot pack.
type Source struct {
	URL           string
	Peer          bool
	announceDelay time.Duration // delay of the network that the tracker announced; 0: none
	control       swarm.Control // bytes exchanged with trackers to learn of these sources
}

// patience is the time-out of a request. A server gets more, because its answer waits behind those to other nodes.
func (s Source) patience() time.Duration {
	if s.Peer {
		return max(startPatience, s.announceDelay)
	}
	return max(serverPatience, 4*s.announceDelay)
}

// Bound ends a request of the source when it has taken too long.
func (s Source) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.patience())
}

// Sources lists the sources in order: peers that the tracker names, if the node shares a boot pack, and then the
// servers. prefix is the length of the node's subnet.
func Sources(
	ctx context.Context,
	client *http.Client,
	a fleet.Assignment,
	pack *fleet.PackRef,
	prefix int,
) (out []Source) {
	var help swarm.JoinResult
	if a.Swarm != nil && pack != nil && len(a.Servers) > 0 {
		if id, err := chunk.ParseID(pack.Object); err == nil { // who fetches the pack says what is wrong with it
			help = peer.Join(
				ctx,
				client,
				a.Servers,
				peer.JoinOptions{Pack: id, Prefix: prefix, Location: a.Swarm.Place, LocalOnly: a.Swarm.LocalOnly},
			)
			for _, p := range help.Peers {
				out = append(out, Source{"http://" + p.String(), true, help.AnnounceDelay, help.Control})
			}
		}
	}
	// the one whose tracker answered lives
	for _, s := range slices.Concat(a.Servers[help.Tracker:], a.Servers[:help.Tracker]) {
		out = append(out, Source{s, false, help.AnnounceDelay, help.Control})
	}
	return out
}

// NewClient returns a client for the bootstrap files, which reuses a connection for the next file. Its connections
// close when they are idle.
func NewClient() *http.Client { return &http.Client{Transport: &http.Transport{}} }

// SwarmConfig is how the daemon of a root or an extension takes part in its swarm, after what its start came from.
func SwarmConfig(s *fleet.Swarm, sources []Source) *blockapi.SwarmConfig {
	c := &blockapi.SwarmConfig{Place: s.Place, LocalOnly: s.LocalOnly, AnnounceDelay: announceDelayOf(sources)}
	if len(sources) > 0 {
		c.Control = sources[0].control
	}
	for _, x := range sources {
		if a, err := netip.ParseAddrPort(strings.TrimPrefix(x.URL, "http://")); err == nil && x.Peer {
			c.Start = append(c.Start, a)
		}
	}
	return c
}

// announceDelayOf is the delay of the network that the tracker announced with these sources.
func announceDelayOf(sources []Source) time.Duration {
	if len(sources) == 0 {
		return 0
	}
	return sources[0].announceDelay
}

// ReportCorrupt reports a peer that sent wrong bytes to the trackers. It does not wait for a reply.
func ReportCorrupt(servers []string, s Source, err error) {
	var file *wrongFileError
	var object *chunk.WrongBytesError
	a, parse := netip.ParseAddrPort(strings.TrimPrefix(s.URL, "http://"))
	if !errors.As(err, &file) && !errors.As(err, &object) || parse != nil {
		return
	}
	for _, tracker := range servers {
		go func() {
			client := NewClient()
			defer client.CloseIdleConnections()
			_ = peer.ReportCorrupt(context.Background(), client, tracker, a) // other nodes report the same peer
		}()
	}
}
