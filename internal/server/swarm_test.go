package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"pando/internal/admission"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/registry"
)

// putPack stores a boot pack with some pieces, and returns its map.
func (s *site) putPack(pieces int) (id chunk.ID, ids []chunk.ID) {
	s.t.Helper()
	unlock, err := s.store.Lock(s.t.Context(), "test")
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	w := s.store.NewWriter()
	defer w.Close()
	put := func(b []byte) chunk.ID {
		id, _, err := w.Put(s.t.Context(), b)
		if err != nil {
			s.t.Fatal(err)
		}
		return id
	}
	m := bootpack.Map{
		Version:  image.Version([]byte("v")),
		Sequence: 1,
		Booted:   pieces,
		Extents:  []bootpack.Extent{{Start: 0, Blocks: uint32(pieces)}},
	}
	for i := range pieces {
		raw := bytes.Repeat([]byte{byte(i + 1)}, chunk.BlockSize)
		ids = append(ids, put(raw))
		m.Pieces = append(
			m.Pieces,
			chunk.Entry{RawSize: len(raw), StoredSize: len(raw), Codec: chunk.Stored, ID: ids[i]},
		)
	}
	b, err := m.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	id = put(b)
	if err := w.Sync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return id, ids
}

// swarm sends a message to the tracker.
func (n *node) swarm(path string, message map[string]any) (int, map[string]any) {
	n.t.Helper()
	body, err := json.Marshal(message)
	if err != nil {
		n.t.Fatal(err)
	}
	resp, err := n.http.Post(
		fmt.Sprintf("http://127.0.0.1:%d/swarm/%s", n.ports.Data, path),
		"application/json",
		bytes.NewReader(body),
	)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := map[string]any{}
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			n.t.Fatal(err)
		}
	}
	return resp.StatusCode, answer
}

// The tracker on the image port knows only the packs of the store, and a grant ends when its piece was sent.
func TestTrackerOfTheDataPath(t *testing.T) {
	s := startSite(t)
	pack, ids := s.putPack(12)
	n := s.node(1)
	join := map[string]any{"pack": pack.String(), "pieces": 12, "port": 80}
	if code, _ := n.swarm("join",
		map[string]any{"pack": chunk.Sum(nil).String(), "pieces": 12, "port": 80}); code != http.StatusNotFound {
		t.Errorf("a pack that is not in the store: status %d", code)
	}
	if code, _ := n.swarm("join",
		map[string]any{"pack": ids[0].String(), "pieces": 12, "port": 80}); code != http.StatusNotFound {
		t.Errorf("an object that is no pack: status %d", code)
	}
	if code, _ := n.swarm("join", join); code != http.StatusOK {
		t.Fatalf("join: status %d", code)
	}
	join["port"] = 81
	if code, a := n.swarm("join", join); code != http.StatusOK || fmt.Sprint(a["peers"]) != "[127.0.0.1:80]" {
		t.Errorf("the second one joins: status %d, %v", code, a)
	}
	// The rate of loopback is unknown, so the tracker allows four transfers. The fifth waits until one has ended.
	want := "0-7"
	_, a := n.swarm("ask", map[string]any{"pack": pack.String(), "port": 80, "size": 4096, "want": want, "max": 8})
	if fmt.Sprint(a["grant"]) != "0-3" {
		t.Fatalf("granted %v", a)
	}
	ask := func() <-chan map[string]any {
		answered := make(chan map[string]any, 1)
		go func() {
			_, a := n.swarm(
				"ask",
				map[string]any{"pack": pack.String(), "port": 81, "size": 4096, "want": want, "max": 1},
			)
			answered <- a
		}()
		return answered
	}
	first := ask()
	if _, b := n.get("/o/" + ids[2].Name()); !bytes.Equal(b, bytes.Repeat([]byte{3}, chunk.BlockSize)) {
		t.Fatal("wrong bytes")
	}
	// On a busy machine the first request may be answered before the piece was sent.
	if a = <-first; a["grant"] == nil {
		a = <-ask()
	}
	if fmt.Sprint(a["grant"]) != "4" {
		t.Errorf("answered %v", a)
	}
}

// The assignments of a group's nodes contain the group's peer setting and the node's location.
func TestAssignmentSaysHowToSwarm(t *testing.T) {
	s := startSite(t)
	s.addImage()
	for i, x := range []struct {
		peers fleet.PeerPolicy
		label map[string]string
		want  string
	}{
		{"", nil, `{}`},
		{fleet.PeersOn, map[string]string{"rack": "r1", "switch": "s1"}, `{"place":"r1"}`},
		{fleet.PeersRack, map[string]string{"switch": "s1"}, `{"place":"s1","near":true}`},
		{fleet.PeersOff, map[string]string{"rack": "r1"}, `null`},
	} {
		n := s.node(byte(i + 1))
		cfg := n.load()
		s.update(func(tx *registry.Tx) error {
			g, err := tx.Group(fleet.DefaultGroup)
			if err != nil {
				return err
			}
			g.Peers = &x.peers
			if err := tx.PutGroup(g); err != nil {
				return err
			}
			node, err := tx.NodeByMAC(n.mac)
			if err != nil {
				return err
			}
			node.Labels = x.label
			return tx.PutNode(node.Name, node)
		})
		a := checkAssignment(t, cfg, n.register(cfg))
		swarm, err := json.Marshal(a.Swarm)
		if got := string(swarm); err != nil || got != x.want {
			t.Errorf("peers %q: assigned %s, want %s", x.peers, got, x.want)
		}
	}
}

// While more than half of the slots load kernel+initrd, which fills the link, the tracker is told so.
func TestTrackerKnowsThatKFillsTheLink(t *testing.T) {
	s := startSite(t, slots(4))
	text := make(chan bool, 8)
	s.admission.Busy = func(full bool) { text <- full }
	var loads []admission.Transfer
	for i := range byte(4) {
		loads = append(loads, s.admission.Begin(fleet.MAC{0x52, 0x54, 0, 0, 0, i}))
	}
	for _, l := range loads {
		l.End()
	}
	if !<-text || <-text || len(text) > 0 {
		t.Error("want the link full once, and free once")
	}
}
