package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/trace"
)

// BenchmarkLook measures requests to a server with 10,000 booted nodes, a third of them with an outdated version: the
// fleet for /metrics, all of /metrics, the faults, the list, and what a reboot would change for all and for forty
// nodes.
func BenchmarkLook(b *testing.B) {
	const nodes = 10_000
	s := startSite(b)
	_, old := s.addImage()
	_, version := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"quiet", "splash"} })
	versions := []fleet.Digest{old, version, version}
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	b.Cleanup(c.Close)
	now := s.now()
	status, err := json.Marshal(
		api.NodeStatus{
			Bytes:   map[string]int64{"server": 1e7, "peer": 3e7},
			Reads:   900,
			Systemd: &api.Systemd{State: "running"},
		},
	)
	if err != nil {
		b.Fatal(err)
	}
	var events []trace.Event
	err = s.registry.Update(b.Context(), func(tx *registry.Tx) error {
		for i := range nodes {
			mac, name := fleet.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}, fmt.Sprintf("pc%05d", i)
			id := fleet.BootID(fmt.Sprintf("%016x", i+1))
			if err := tx.CreateNode(fleet.Node{Name: name, State: fleet.Adopted, Group: fleet.DefaultGroup,
				MACs: []fleet.MAC{mac}, Created: now, Seen: now}); err != nil {
				return err
			}
			if err := tx.CreateBoot(registry.Boot{ID: id, MAC: mac, Node: name, Started: now, Image: "lab",
				Version: versions[i%3]}); err != nil {
				return err
			}
			events = append(
				events,
				trace.Event{Time: now, Boot: id, Node: name, MAC: mac, Stage: trace.DHCP, Kind: trace.Begin},
				trace.Event{
					Time:  now,
					Boot:  id,
					Node:  name,
					MAC:   mac,
					Stage: trace.Script,
					Kind:  trace.Info,
					Attrs: map[string]string{trace.AttrArgs: "quiet splash"},
				},
				trace.Event{
					Time:  now.Add(time.Minute),
					Boot:  id,
					Node:  name,
					MAC:   mac,
					Stage: trace.Booted,
					Kind:  trace.End,
				},
			)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.registry.Append(b.Context(), events...); err != nil {
		b.Fatal(err)
	}
	for i := range nodes {
		if err := s.registry.PutStatus(b.Context(), fleet.BootID(fmt.Sprintf("%016x", i+1)), status, now); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("fleet", func(b *testing.B) {
		for b.Loop() {
			s.clock.add(time.Minute) // old enough for a new read
			if _, err := s.lookout.Look(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("metrics", func(b *testing.B) {
		bytes := 0
		for b.Loop() {
			w := httptest.NewRecorder()
			s.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			bytes = w.Body.Len()
		}
		b.ReportMetric(float64(bytes), "bytes")
	})
	b.Run("failed", func(b *testing.B) {
		for b.Loop() {
			s.faults.Forget()
			if _, err := s.faults.List(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if l, err := c.Nodes(b.Context(), ""); err != nil || len(l) != nodes {
				b.Fatal(len(l), err)
			}
		}
	})
	for what, n := range map[string]int{"": nodes, "pc[00000-00039]": 40} {
		b.Run(fmt.Sprint("diff-", n), func(b *testing.B) { benchDiff(b, c, what, n) })
	}
}

// benchDiff requests what a reboot would change for nodes; the first of them has an outdated config file.
func benchDiff(b *testing.B, c *api.Client, what string, n int) {
	for b.Loop() {
		if l, err := c.DiffNodes(b.Context(), what); err != nil || len(l) != n || !l[0].Changes || l[1].Changes {
			b.Fatalf("%d, %v", len(l), err)
		}
	}
}
