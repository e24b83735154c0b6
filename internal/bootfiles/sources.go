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

// startPatience is the time that a peer has for one bootstrap file, serverPatience the time that a server has. Both
// get more on a network with an announce delay.
const (
	startPatience  = 2 * time.Second
	serverPatience = 20 * time.Second
)

// Source is a peer or a server that sends the bootstrap files: manifest, signature and the map of the boot pack.
type Source struct {
	URL           string
	Peer          bool
	announceDelay time.Duration // the tracker's announce delay; 0: none
	control       swarm.Control // bytes exchanged with trackers to learn of these sources
}

// patience is the timeout of a request. A server gets more time than a peer, because its answer waits behind those to
// other nodes.
func (s Source) patience() time.Duration {
	if s.Peer {
		return max(startPatience, s.announceDelay)
	}
	return max(serverPatience, 4*s.announceDelay)
}

// Bound returns a context for one request to the source, which ends after the source's timeout.
func (s Source) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.patience())
}

// Sources lists the sources in order: peers that the tracker names, if the node shares a boot pack, and then the
// servers. prefix is the prefix length of the node's subnet.
func Sources(
	ctx context.Context,
	client *http.Client,
	a fleet.Assignment,
	pack *fleet.PackRef,
	prefix int,
) (out []Source) {
	var help swarm.JoinResult
	if a.Swarm != nil && pack != nil && len(a.Servers) > 0 {
		if id, err := chunk.ParseID(pack.Object); err == nil { // an invalid ID is reported when the pack is fetched
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
	// The server whose tracker answered comes first, because it is known to work.
	for _, s := range slices.Concat(a.Servers[help.Tracker:], a.Servers[:help.Tracker]) {
		out = append(out, Source{s, false, help.AnnounceDelay, help.Control})
	}
	return out
}

// NewClient returns a client for the bootstrap files, which reuses a connection for the next file. Its connections
// close when they are idle.
func NewClient() *http.Client { return &http.Client{Transport: &http.Transport{}} }

// SwarmConfig returns the swarm settings of a root's or an extension's daemon. sources are those that sent the
// bootstrap files; their peers become the first peers of the swarm.
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

// announceDelayOf returns the announce delay of the tracker that named these sources, 0 if there is none.
func announceDelayOf(sources []Source) time.Duration {
	if len(sources) == 0 {
		return 0
	}
	return sources[0].announceDelay
}

// ReportCorrupt tells all trackers about a peer that sent wrong bytes. Other errors and servers are not reported. It
// does not wait for a reply.
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
			_ = peer.ReportCorrupt(context.Background(), client, tracker, a) // other nodes report it too
		}()
	}
}
