package boot

import (
	"context"
	"net/http"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/peer"
	"pando/internal/trace"
)

// startPatience is how long a peer may take for each file that a boot starts with. They are small, and servers have them too.
const startPatience = 2 * time.Second

// startSource is who is asked for what a boot starts with: manifest, signature, map of the boot pack.
type startSource struct {
	url  string
	peer bool
}

// bound gives a peer less time than a server.
func (s startSource) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.peer {
		return context.WithTimeout(ctx, startPatience)
	}
	return context.WithCancel(ctx)
}

// startSources are where the root's start is asked for.
func (m *machine) startSources(ctx context.Context, client *http.Client) []startSource {
	n := m.lease.network()
	return startSources(ctx, client, m.assigned(), m.assigned().Pack, n.prefixLength())
}

// startSources are the servers, and before them peers that have it where the node shares a boot pack and the tracker names some. prefix is the length of
// the node's subnet.
func startSources(ctx context.Context, client *http.Client, a fleet.Assignment, pack *fleet.PackRef, prefix int) (out []startSource) {
	if a.Swarm != nil && pack != nil && len(a.Servers) > 0 {
		if id, err := chunk.ParseID(pack.Object); err == nil { // who fetches the pack says what is wrong with it
			for _, p := range peer.StartPeers(ctx, client, a.Servers[0], id, prefix, a.Swarm.Place, a.Swarm.Near) {
				out = append(out, startSource{p, true})
			}
		}
	}
	for _, s := range a.Servers {
		out = append(out, startSource{s, false})
	}
	return out
}

// peerFailed tells that a peer did not send what it should have: somebody else is asked.
func (m *machine) peerFailed(s startSource, err error) {
	m.event(trace.Event{Stage: trace.Manifest, Kind: trace.Info, Message: "peer " + s.url + ": " + err.Error(), Hint: "the boot goes on with another source"})
}
