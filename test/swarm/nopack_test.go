package swarm

import (
	"testing"

	"pando/internal/blockapi"
	"pando/internal/store"
)

// A version that never booted has no boot pack. Eight nodes that boot it at once read the same chunks at the same time,
// and send them to each other.
func TestStormWithoutAPack(t *testing.T) {
	f := newFleet(t, 8)
	manifest := []byte("a manifest") // whose bytes nobody reads here; it names the swarm
	dir, err := store.OpenDir(f.dir + "/data/store")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.PutVersion(store.Version{Manifest: manifest, Signature: []byte("a signature")}); err != nil {
		t.Fatal(err)
	}
	before := f.sent()
	nodes := f.together(numbers(8), nil, func(c *blockapi.Config) { c.Pack, c.Manifest = nil, manifest })
	var server, peers int64
	for _, n := range nodes {
		st := n.now()
		server, peers = server+st.Bytes["server"], peers+st.Bytes["peer"]
		if st.Rejected > 0 {
			t.Errorf("%s: %d wrong answers", n.name, st.Rejected)
		}
	}
	w := float64(f.w())
	t.Logf(
		"the server sent %.2f W of objects, %.2f W in all; %.2f W came from peers",
		float64(server)/w,
		float64(f.sent()-before)/w,
		float64(peers)/w,
	)
	if float64(server) > mostSent*w {
		t.Errorf("the server sent %.1f W, want at most %d", float64(server)/w, mostSent)
	}
}
