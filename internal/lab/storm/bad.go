package storm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
)

// badGroup has the bad peers of a run.
type badGroup struct {
	peers []*bench.Program
	notes []string // files with their notes
}

// badPeers starts bad peers, on the links after those of the nodes.
func (s *Storm) badPeers(ctx context.Context, m *testbed.Material, j job) (c *badGroup, err error) {
	c = &badGroup{}
	f := findFault(j.Fault)
	if f.bad == "" {
		return c, nil
	}
	for i := range affected(j.Nodes) {
		name := filepath.Join(s.Dir, fmt.Sprintf("bad-peer-%d", i))
		_ = os.Remove(name + ".json") // of a run before
		cmd := s.Star.Nodes[j.Nodes+i].Command(
			context.Background(),
			filepath.Join(s.Bin, "pando-lab"),
			"bad-peer",
			"--data",
			s.DataDir(),
			"--pack",
			m.Pack.Object.String(),
			"--server",
			"http://"+bench.Network.Addr().String()+":"+testbed.DataPort,
			"--as",
			f.bad,
			"--rate",
			j.Node.String(),
			"--note",
			name+".json",
		)
		p, err := bench.StartProgram(ctx, cmd, name+".log", func() bool { return true })
		if err != nil {
			c.stop()
			return nil, err
		}
		c.peers, c.notes = append(c.peers, p), append(c.notes, name+".json")
	}
	return c, nil
}

func (c *badGroup) stop() {
	for _, p := range c.peers {
		p.Stop()
	}
	c.peers = nil
}

// ended stops the bad peers, and returns their answers to nodes.
func (c *badGroup) ended() ([]bench.BadAnswer, error) {
	c.stop()
	return bench.ReadBadNotes(c.notes)
}

// tellTime is the time that a node needs to report an incident: an incident that is closer to the end of the storm may
// be missing on the timeline.
const tellTime = 3 * time.Second

// tellFrom is the number of transfers after which a node knows the usual duration.
const tellFrom = 8

// spoiled counts the bad answers that each node got early enough to report them. It also records how long the node
// waited for one, after it knew the usual duration.
func (r *stormRun) spoiled(nodes []*node, answers []bench.BadAnswer) {
	end := r.Began.Add(time.Duration(r.Last*float64(time.Second)) - tellTime)
	slices.SortFunc(answers, func(a, b bench.BadAnswer) int { return a.Ended.Compare(b.Ended) })
	for i, n := range nodes {
		x := &r.Each[i]
		for _, a := range answers {
			if a.To != n.Net.Addr.Addr() || a.Ended.After(end) {
				continue
			}
			if x.Spoiled++; x.Spoiled > tellFrom {
				x.Waited = max(x.Waited, a.Took.Seconds())
			}
		}
	}
}
