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

// badGroup is the bad peers of a run.
type badGroup struct {
	peers []*bench.Program
	notes []string // files that they leave
}

// badPeers starts peers that send what they should not, on the links after those of the nodes.
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

// ended stops them, and returns what they did to whom.
func (c *badGroup) ended() ([]bench.BadAnswer, error) {
	c.stop()
	return bench.ReadBadNotes(c.notes)
}

// tellTime is how long before its end a storm's nodes can be told something that is on their timelines: they wait a
// little before they tell.
const tellTime = 3 * time.Second

// tellFrom is after how many transfers a node knows what is usual.
const tellFrom = 8

// spoiled notes which nodes got answers of bad peers, early enough to be told of, and how long they waited for one
// when they knew what is usual.
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
