package initrd

import (
	"io"
	"strings"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/testkit/nodekit"
	"pando/internal/trace"
)

// TestStartFromPeers: the bootstrap files come from peers that the tracker names. A wrong file is dropped, the
// timeline names the peer, and another source is used: a server if no peer has the file.
func TestStartFromPeers(t *testing.T) {
	p := nodekit.Publish(t, nil)
	wrong := p
	wrong.Data = append([]byte(" "), p.Data...)
	good, bad := p.Serve(t), wrong.Serve(t)
	for name, c := range map[string]struct {
		peers  []string
		failed int // peers that the timeline names
		server bool
	}{
		"a good peer":                {[]string{good}, 0, false},
		"a bad one first":            {[]string{bad, good}, 1, false},
		"one that is gone":           {[]string{"http://127.0.0.1:1", good}, 1, false},
		"bad ones alone":             {[]string{bad, "http://127.0.0.1:1"}, 2, true},
		"nobody":                     {nil, 0, true},
		"a peer that is no address":  {[]string{"http://x"}, 0, true},
		"more than a tracker names":  {[]string{bad, bad, good}, 2, true},
		"a place that is no machine": {[]string{"http://0.0.0.0:0"}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineFor(p)
			m.timeline.console, m.timeline.report, m.timeline.begun = &console{
				kmsg: io.Discard,
			}, control.NewReporter(
				nil,
			), map[trace.Stage]time.Time{}
			server, asked := trackerNaming(t, p, c.peers)
			m.timeline.assignment.Load().Servers = []string{server}
			m.timeline.assignment.Load().Swarm = &fleet.Swarm{}
			m.timeline.assignment.Load().Pack = &fleet.PackRef{Object: chunk.Sum([]byte("no map")).String()}
			if got, _, err := fetch(t, m); err != nil || got.Manifest.Root.Size == 0 {
				t.Fatal(err)
			}
			if got := asked.Load() > 0; got != c.server {
				t.Errorf("the server was asked: %v", got)
			}
			failed := 0
			for _, e := range m.timeline.report.Take() {
				if strings.HasPrefix(e.Message, "peer http://") && !strings.Contains(e.Message, "/o/") {
					failed++
				}
			}
			if failed != c.failed {
				t.Errorf("%d peers failed, by the timeline", failed)
			}
		})
	}
}
