package boot

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/image/bootpack"
)

func TestStatusSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), BlockSocket)
	if err := os.WriteFile(path, nil, 0o600); err != nil { // what a daemon that was killed left
		t.Fatal(err)
	}
	var set Network
	over := false
	s := &statusServer{
		status: func(since int64) BlockStatus { return BlockStatus{Reads: 42, Sequence: since} },
		setNetwork: func(n Network) error {
			if n.Interface == 0 {
				return errors.New("no interface")
			}
			set = n
			return nil
		},
		endReads: func() Recording { return Recording{Count: 3, Reads: []byte("abc"), Pack: "p", Wasted: 9} },
		booted:   func() { over = true }}
	if err := serveStatus(t.Context(), path, s, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v; want 0600", fi.Mode(), err)
	}
	c := BlockClient{Socket: path}
	if st, err := c.Status(t.Context(), 7); err != nil || st.Reads != 42 || st.Sequence != 7 {
		t.Errorf("status %+v, %v", st, err)
	}
	want := Network{Interface: 2, Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
		Routes: []Route{{Via: netip.MustParseAddr("192.0.2.254")}}}
	if err := c.SetNetwork(t.Context(), want); err != nil || set.Interface != 2 || set.Routes[0] != want.Routes[0] {
		t.Errorf("network %+v, %v", set, err)
	}
	if err := c.SetNetwork(t.Context(), Network{}); err == nil || !strings.Contains(err.Error(), "no interface") {
		t.Errorf("network without interface: %v", err)
	}
	if r, err := c.EndReads(t.Context()); err != nil || r.Count != 3 || string(r.Reads) != "abc" || r.Pack != "p" ||
		r.Wasted != 9 {
		t.Errorf("reads %+v, %v", r, err)
	}
	if err := c.Booted(t.Context()); err != nil || !over {
		t.Errorf("booted: %t, %v", over, err)
	}
	for _, bad := range []string{"/status?since=x", "/nothing", "/reads", "/booted"} {
		if _, err := c.do(t.Context(), "GET", bad, nil); err == nil {
			t.Errorf("GET %s succeeds", bad)
		}
	}
	if _, err := c.do(t.Context(), "PUT", "/network", []byte(`{"interface":1,"typo":2}`)); err == nil {
		t.Error("PUT of an unknown field succeeds")
	}
}

func TestBlockConfigValidate(t *testing.T) {
	good := testBlockConfig()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*BlockConfig){
		"no index":     func(c *BlockConfig) { c.Index.Algorithm, c.Index.Sum = 0, [32]byte{} },
		"no size":      func(c *BlockConfig) { c.Size = 0 },
		"odd size":     func(c *BlockConfig) { c.Size = 4097 },
		"no chunks":    func(c *BlockConfig) { c.ChunkSize = 0 },
		"large pack":   func(c *BlockConfig) { c.Pack = make([]byte, bootpack.MaxSize+1) },
		"no servers":   func(c *BlockConfig) { c.Servers = nil },
		"server name":  func(c *BlockConfig) { c.Servers = []string{"http://pando.example:8480"} },
		"server https": func(c *BlockConfig) { c.Servers = []string{"https://192.0.2.1:8480"} },
		"no URL":       func(c *BlockConfig) { c.Servers = []string{"192.0.2.1"} },
	} {
		c := testBlockConfig()
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
