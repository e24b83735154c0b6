package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
)

// An operator's command is in the answer to the node's next report, and in later ones until the node has reported its
// result. No other node can report it.
func TestCommands(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	if _, err := c.NodeDisks(t.Context(), "node001"); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("a node that has not said hello: %v", err)
	}
	session := "Bearer " + n.register(cfg).Session
	beat := api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second}
	if e := n.post("/v1/node/events", session, beat, nil); e != nil {
		t.Fatal(e)
	}
	type answer struct {
		disks []api.Disk
		err   error
	}
	ask := func(do func() ([]api.Disk, error)) (<-chan answer, api.NodeCommand) {
		t.Helper()
		done := make(chan answer, 1)
		go func() {
			d, err := do()
			done <- answer{d, err}
		}()
		for {
			var got api.ReportResponse
			if e := n.post("/v1/node/events", session, beat, &got); e != nil {
				t.Fatal(e)
			}
			if got.Command != nil {
				return done, *got.Command
			}
		}
	}
	done, e := ask(func() ([]api.Disk, error) { return c.NodeDisks(t.Context(), "node001") })
	if _, again := ask(func() ([]api.Disk, error) { return nil, nil }); again != e || e.Kind != api.ListDisks {
		t.Errorf("given again it is %+v, was %+v", again, e)
	}
	if _, err := c.NodeDisks(t.Context(), "node001"); err == nil || !strings.Contains(err.Error(), "another command") {
		t.Errorf("a second operator: %v", err)
	}
	rep := api.NodeCommandReport{Boot: cfg.Boot, ID: e.ID, Disks: []api.Disk{{Name: "/dev/sda", Size: 5}}}
	if e := n.post("/v1/node/errand", "Bearer x", rep, nil); e == nil {
		t.Error("a stranger's report is taken")
	}
	if e := n.post("/v1/node/errand", session, rep, nil); e != nil {
		t.Fatal(e)
	}
	if a := <-done; a.err != nil || len(a.disks) != 1 || a.disks[0] != rep.Disks[0] {
		t.Errorf("%+v", a)
	}

	cache := api.NodeCache{Device: "/dev/sda", Erase: "/dev/sdb"}
	if _, err := c.PrepareNodeCache(t.Context(), "node001", cache); err == nil ||
		!strings.Contains(err.Error(), "confirmed") {
		t.Errorf("two different devices: %v", err)
	}
	cache.Erase = cache.Device
	done, e = ask(func() ([]api.Disk, error) { return c.PrepareNodeCache(t.Context(), "node001", cache) })
	if e.Kind != api.PrepareCache || e.Device != "/dev/sda" || e.DryRun {
		t.Errorf("%+v", e)
	}
	rep = api.NodeCommandReport{Boot: cfg.Boot, ID: e.ID, Error: "it is mounted", Hint: "unmount it"}
	if e := n.post("/v1/node/errand", session, rep, nil); e != nil {
		t.Fatal(e)
	}
	var refusal *api.Error
	if a := <-done; !errors.As(a.err, &refusal) || refusal.Message != "it is mounted" || refusal.Hint != "unmount it" {
		t.Errorf("%+v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, _ = ask(func() ([]api.Disk, error) { return c.NodeDisks(ctx, "node001") })
	cancel()
	if a := <-done; a.err == nil {
		t.Error("an operator who went away has an answer")
	}
}
