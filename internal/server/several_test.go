package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pando/internal/chunk"
	"pando/internal/store"
)

// several asks for objects together.
func (n *node) several(body string) (int, []byte) {
	n.t.Helper()
	resp, err := n.http.Post(fmt.Sprintf("http://127.0.0.1:%d/o", n.dataPort), "", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, b
}

func listed(ids ...chunk.ID) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(id.Name() + "\n")
	}
	return b.String()
}

// putPack's piece i.
func pieceOf(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, chunk.BlockSize) }

// A server sends the first ones of the objects that it is asked for, as far as it has them.
func TestSeveralObjects(t *testing.T) {
	s := startSite(t)
	_, ids := s.putPack(store.MostSeveral + 1)
	n, none := s.node(1), chunk.Sum([]byte("nobody has it"))
	for name, x := range map[string]struct {
		body   string
		status int
		want   [][]byte // pieces; nil: a text
	}{
		"three":                  {listed(ids[4], ids[0], ids[7]), 200, [][]byte{pieceOf(4), pieceOf(0), pieceOf(7)}},
		"no line's end":          {strings.TrimSpace(listed(ids[4], ids[0])), 200, [][]byte{pieceOf(4), pieceOf(0)}},
		"the second is missing":  {listed(ids[4], none, ids[7]), 200, [][]byte{pieceOf(4)}},
		"the first is missing":   {listed(none, ids[7]), 404, nil},
		"the same twice":         {listed(ids[3], ids[3]), 200, [][]byte{pieceOf(3), pieceOf(3)}},
		"none":                   {"", 400, nil},
		"a name that is none":    {listed(ids[4]) + "../keys/secret\n", 400, nil},
		"a name in capitals":     {strings.ToUpper(listed(ids[4])), 400, nil},
		"more than are sent":     {listed(ids...), 400, nil},
		"a line without an end":  {strings.Repeat("0", 1<<20), 400, nil},
		"as many as can be sent": {listed(ids[:store.MostSeveral]...), 200, pieces(store.MostSeveral)},
	} {
		status, b := n.several(x.body)
		if status != x.status || x.want != nil && !bytes.Equal(b, bytes.Join(x.want, nil)) {
			t.Errorf("%s: status %d, %d bytes; want %d, %d pieces", name, status, len(b), x.status, len(x.want))
		}
		if x.want == nil && !strings.Contains(string(b), " ") {
			t.Errorf("%s: told %q", name, b)
		}
	}
}

func pieces(n int) (out [][]byte) {
	for i := range n {
		out = append(out, pieceOf(i))
	}
	return out
}

// The source that a node has asks as the server answers.
func TestSeveralObjectsOfAServer(t *testing.T) {
	s := startSite(t)
	_, ids := s.putPack(3)
	h := &store.HTTP{URL: fmt.Sprintf("http://127.0.0.1:%d", s.node(1).dataPort), Client: http.DefaultClient}
	var rs []store.Request
	for _, id := range ids {
		rs = append(rs, store.Request{ID: id, Size: chunk.BlockSize})
	}
	came := 0
	if err := h.GetSeveral(t.Context(), rs, func(i int, v chunk.Verified) {
		if came++; v.ID() != ids[i] {
			t.Errorf("%d is %s", i, v.ID())
		}
	}); err != nil || came != 3 {
		t.Errorf("%d came, %v", came, err)
	}
}

// What stands in line, because nobody granted it and the uplink has no room, keeps nothing waiting that was asked
// for with it; as the first it is waited for.
func TestSeveralObjectsThatAreNotGranted(t *testing.T) {
	s := startSite(t, func(c *Config) { c.Uplink = 40_000 }) // a piece takes a tenth of a second
	pack, ids := s.putPack(12)
	n := s.node(1)
	if code, _ := n.swarm("join", map[string]any{"pack": pack.String(), "pieces": 12, "port": 80}); code != http.StatusOK {
		t.Fatalf("join: status %d", code)
	}
	if _, a := n.swarm("ask", map[string]any{"pack": pack.String(), "port": 80, "size": chunk.BlockSize, "want": "0", "max": 1}); fmt.Sprint(
		a["grant"],
	) != "0" {
		t.Fatalf("granted %v", a)
	}
	if _, b := n.several(listed(ids[0], ids[9], ids[1])); !bytes.Equal(b, pieceOf(0)) {
		t.Errorf("%d bytes came, want those of the piece that was granted", len(b))
	}
	if _, b := n.several(listed(ids[9], ids[1])); !bytes.Equal(b, pieceOf(9)) {
		t.Errorf("%d bytes came, want those of the first piece", len(b))
	}
}

// Where nodes read objects of a bucket, they are asked for singly.
func TestSeveralObjectsOfABucket(t *testing.T) {
	s := startSite(t, func(c *Config) { c.Direct = bucketOfNone{} })
	_, ids := s.putPack(2)
	if status, _ := s.node(1).several(listed(ids...)); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
}

type bucketOfNone struct{}

func (bucketOfNone) NodeURL() string                                { return "" }
func (bucketOfNone) Sign(context.Context, chunk.ID) (string, error) { return "", nil }
