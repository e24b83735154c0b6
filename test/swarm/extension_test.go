package swarm

import (
	"path/filepath"
	"testing"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/swarm"
)

// extension returns a second fleet on the same nodes: another device, whose daemons have their own ports.
func (f *fleet) extension(seed byte) *fleet {
	f.t.Helper()
	x := *f
	x.fillAs(filepath.Join(f.dir, "data"), seed)
	x.above, x.elsewise = "ext-8", blockapi.SwarmConfig{Port: swarm.Port + 1}
	x.config.Keep = 8 << 20
	return &x
}

// Six running nodes get an extension at the same moment. Its daemons have their own peers, at their own port, which are
// separate from the roots' daemons. The server sends it about once.
func TestStormOfAnExtension(t *testing.T) {
	const nodes = 6
	f := newFleet(t, nodes+1)
	f.together(numbers(nodes), nil)
	x := f.extension(10)
	before := f.sent()
	on := x.together(numbers(nodes), nil)
	link := float64(f.sent()-before) / float64(x.w())
	var server, peers int64
	for _, n := range on {
		st := n.status(func(st blockapi.Status) bool { return st.Bytes["server"]+st.Bytes["peer"] >= x.w() })
		server, peers = server+st.Bytes["server"], peers+st.Bytes["peer"]
	}
	got := float64(server) / float64(x.w())
	t.Logf("the server sent %.2f copies, its link %.2f; peers %.2f", got, link, float64(peers)/float64(x.w()))
	if got >= nodes/2 || link >= nodes/2 {
		t.Errorf("the server sent %.2f copies to %d nodes, its link %.2f", got, nodes, link)
	}
	for _, n := range on[:nodes/2] { // a daemon says goodbye when its extension is detached
		f.check(n.Client.Leave(t.Context()))
		n.Close()
	}
	// this node runs no root here, which does not matter
	if late := x.together([]int{nodes}, nil)[0].now(); late.Bytes["peer"] < x.w()/2 {
		t.Errorf("one that came late has %d bytes of peers, of %d", late.Bytes["peer"], x.w())
	}
}

// An extension without a boot pack, with the pack of another version, or with peers off, is read from the server.
func TestExtensionsThatAreNotShared(t *testing.T) {
	f := newFleet(t, 2)
	x := f.extension(10)
	odd := func(change func(*bootpack.Map)) []byte {
		p, err := bootpack.Decode(x.config.Pack)
		if err != nil {
			t.Fatal(err)
		}
		change(&p)
		data, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	beyond := odd(func(p *bootpack.Map) { p.Extents = []bootpack.Extent{{Start: 1 << 20, Blocks: rootBlocks}} })
	gone := odd(func(p *bootpack.Map) {
		for i := range p.Pieces {
			p.Pieces[i].ID = chunk.Sum([]byte{byte(i)})
		}
	})
	for name, change := range map[string]func(*blockapi.Config){
		"no-pack":               func(c *blockapi.Config) { c.Pack = nil },
		"peers-off":             func(c *blockapi.Config) { c.Swarm = nil },
		"no-map":                func(c *blockapi.Config) { c.Pack = []byte("a map of nothing") },
		"blocks-beyond-the-end": func(c *blockapi.Config) { c.Pack = beyond },
		"pieces-nobody-has":     func(c *blockapi.Config) { c.Pack = gone },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range x.together(numbers(2), nil, change) {
				if st := n.now(); st.Bytes["peer"]+st.Uploaded != 0 || st.Bytes["server"] < x.w() {
					t.Errorf("%s: %+v", n.name, st)
				}
				n.Close()
			}
		})
	}
}
