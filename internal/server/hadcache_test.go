package server

import (
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Registration tells a node whether it had a cache on disk in the last boot that reported one: only if the group keeps
// a cache, and never by reports of this boot or of another node.
func TestRegistrationKnowsTheCache(t *testing.T) {
	s := startSite(t)
	s.addImage()
	keeps := func(kind fleet.CachePolicy) {
		s.update(func(tx *registry.Tx) error {
			g, err := tx.Group("default")
			if err != nil {
				return err
			}
			g.Cache = &kind
			return tx.PutGroup(g)
		})
	}
	keeps(fleet.CacheDisk)
	pc, other := s.node(1), s.node(2)
	boot := func(n *node, says string) bool {
		t.Helper()
		cfg := n.load()
		resp := n.register(cfg)
		if says != "" {
			e := trace.Event{
				Stage:   trace.Device,
				Kind:    trace.Info,
				Offset:  time.Second,
				Message: "as it is",
				Attrs:   map[string]string{trace.AttrCache: says},
			}
			if e := n.post("/v1/node/events", "Bearer "+resp.Session,
				api.ReportRequest{Boot: cfg.Boot, Uptime: 2 * time.Second, Events: []trace.Event{e}}, nil); e != nil {
				t.Fatal(e)
			}
		}
		s.clock.add(time.Hour)
		return resp.Cached
	}
	for i, x := range []struct {
		node   *node
		keeps  fleet.CachePolicy
		says   string
		cached bool
	}{
		{pc, fleet.CacheDisk, "none", false},
		{pc, fleet.CacheDisk, "/dev/sda1", false}, // the node had no cache before
		{other, fleet.CacheDisk, "", false},
		{pc, fleet.CacheDisk, "", true}, // the boot is broken off
		{pc, fleet.CacheDisk, "/dev/sdb1", true},
		{pc, fleet.CacheNone, "", false},
		{pc, fleet.CacheRAM, "", false},
		{pc, fleet.CacheDisk, "none", true}, // the stick was pulled
		{pc, fleet.CacheDisk, "/dev/sda1", false},
	} {
		keeps(x.keeps)
		if got := boot(x.node, x.says); got != x.cached {
			t.Errorf("boot %d, in a group that keeps %s: cached is %v", i, x.keeps, got)
		}
	}
	pc.load() // no further than its loader
	s.clock.add(time.Hour)
	cfg := pc.load()
	for range 2 { // an answer was lost
		req := registrationOf(cfg)
		req.Nonce = "of this boot"
		var resp api.RegisterResponse
		if e := pc.post("/v1/node/hello", "", req, &resp); e != nil || !resp.Cached {
			t.Errorf("after a boot that did not say hello: %v, %v", resp.Cached, e)
		}
	}
}
