package server

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/ratelimit"
	"pando/internal/registry"
	"pando/internal/trace"
)

// BenchmarkFleet measures the most common requests to a server of 10,000 nodes, over its socket: import, list, a node
// set, a change of one node; and the append of an event.
func BenchmarkFleet(b *testing.B) {
	const nodes = 10_000
	s, c := startBench(b)
	var d api.Declaration
	for i := range nodes {
		d.Nodes = append(d.Nodes, declare(fmt.Sprintf("pc%05d", i), 0, func(n *api.NodeDeclare) {
			n.MACs = []fleet.MAC{{2, 0, 0, 0, byte(i >> 8), byte(i)}}
			n.Labels = map[string]string{"rack": fmt.Sprint("r", i/40)}
		}))
	}
	begun := time.Now()
	if _, err := c.ApplyFleet(b.Context(), api.Apply{Declaration: d}); err != nil {
		b.Fatal(err)
	}
	b.Logf("import of %d nodes: %.1f s", nodes, time.Since(begun).Seconds())
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if l, err := c.Nodes(b.Context(), ""); err != nil || len(l) != nodes {
				b.Fatal(len(l), err)
			}
		}
	})
	b.Run("set", func(b *testing.B) {
		for b.Loop() {
			if l, err := c.Nodes(b.Context(), "pc[00000-00999]!pc00007&rack=r3"); err != nil || len(l) != 40 {
				b.Fatal(len(l), err)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			v := fmt.Sprint(i)
			if _, err := c.SetNodes(b.Context(),
				api.NodeSet{Select: "pc00001", Labels: map[string]*string{"n": &v}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("adopt", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			m := fleet.MAC{2, 1, byte(i >> 16), byte(i >> 8), byte(i)}
			if _, err := s.discovery.Discover(b.Context(), m, "", ratelimit.New(1e9, 1e9)); err != nil {
				b.Fatal(err)
			}
			name := discovery.DiscoveredName + fmt.Sprintf("%x", m[:])
			err := s.registry.Update(b.Context(), func(tx *registry.Tx) error {
				n, err := tx.Node(name)
				if err != nil {
					return err
				}
				n.State = fleet.Adopted
				return tx.PutNode(name, n)
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := s.registry.Append(b.Context(),
					trace.Event{Time: time.Now(), Boot: "00000000000000a1", Stage: trace.Booted,
						Kind: trace.Info}); err != nil {
					b.Error(err)
				}
			}
		})
	})
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.Logf("heap in use: %.1f MB, of the system: %.1f MB", float64(m.HeapInuse)/1e6, float64(m.Sys)/1e6)
}

// startBench runs a server without a fleet.
func startBench(b *testing.B) (*Server, *api.Client) {
	b.Helper()
	dir := b.TempDir()
	agent := filepath.Join(dir, "agent")
	if err := os.WriteFile(agent, []byte("\x7fELF"), 0o755); err != nil {
		b.Fatal(err)
	}
	s, err := New(
		b.Context(),
		Config{
			Dir:     filepath.Join(dir, "data"),
			Data:    "127.0.0.1:0",
			Control: "127.0.0.1:0",
			TFTP:    "127.0.0.1:0",
			Agent:   agent,
			Log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		},
	)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Listen(b.Context()); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(b.Context()) }()
	b.Cleanup(func() { <-ended; _ = s.Close() })
	c := api.OverSocket(filepath.Join(dir, "data", SocketFile))
	b.Cleanup(c.Close)
	return s, c
}
