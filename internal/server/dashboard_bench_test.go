package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// benchNodes is a large fleet.
const benchNodes = 10_000

// manyNodes records a fleet that is up, in eight groups.
func (s *site) manyNodes(n int) []registry.Boot {
	s.t.Helper()
	var boots []registry.Boot
	s.update(func(tx *registry.Tx) error {
		for g := range 8 {
			rack := fleet.Group{Name: fmt.Sprintf("rack%d", g+1), Image: "lab", Follow: true}
			if err := tx.CreateGroup(rack); err != nil {
				return err
			}
		}
		for i := range n {
			mac := fleet.MAC{0x52, 0x54, 1, byte(i >> 16), byte(i >> 8), byte(i)}
			node := fleet.Node{
				Name:    fmt.Sprintf("pc%05d", i+1),
				MACs:    []fleet.MAC{mac},
				State:   fleet.Adopted,
				Group:   fmt.Sprintf("rack%d", i*8/n+1),
				Created: s.now(),
				Seen:    s.now(),
			}
			if err := tx.CreateNode(node); err != nil {
				return err
			}
			b := registry.Boot{ID: fleet.BootID(fmt.Sprintf("%016x", i+1)), MAC: mac, Node: node.Name, Started: s.now()}
			if err := tx.CreateBoot(b); err != nil {
				return err
			}
			boots = append(boots, b)
		}
		return nil
	})
	s.appendAll(boots, trace.Booted)
	return boots
}

// appendAll records that boots have reached a stage.
func (s *site) appendAll(boots []registry.Boot, stage trace.Stage) {
	s.t.Helper()
	var events []trace.Event
	for _, b := range boots {
		events = append(
			events,
			trace.Event{Time: s.now(), Boot: b.ID, Node: b.Node, MAC: b.MAC, Stage: stage, Kind: trace.End},
		)
	}
	if _, err := s.registry.Append(s.t.Context(), events...); err != nil {
		s.t.Fatal(err)
	}
}

// BenchmarkDashboard measures the map of ten thousand nodes in a browser: the bytes sent, the time until it is shown,
// and the time of a frame while five hundred nodes reboot.
func BenchmarkDashboard(b *testing.B) {
	s, base, token := startDashboard(b)
	s.addImage()
	boots := s.manyNodes(benchNodes)
	v := startBrowser(b, base)
	v.Login(token)
	for b.Loop() {
		begun := time.Now()
		v.Open("/")
		v.Until(`document.getElementById("pulse").textContent === "live"`)
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-to-live")
		var sent, raw float64
		load := func(what string) (f float64) {
			if err := v.Eval(v.ctx, `performance.getEntriesByType("navigation")[0].`+what, &f); err != nil {
				b.Fatal(err)
			}
			return f
		}
		sent, raw = load("encodedBodySize"), load("decodedBodySize")
		b.ReportMetric(sent/1e3, "kB-sent")
		b.ReportMetric(raw/1e3, "kB-of-HTML")
		b.ReportMetric(load("responseStart"), "ms-to-first-byte")
		if got := v.Run(`document.querySelectorAll(".t.booted").length`); got != fmt.Sprint(benchNodes) {
			b.Fatalf("%s tiles are up", got)
		}
		v.Run(
			`window.frames_ = []; window.on_ = true; { let last = performance.now(); const f = (t) => { frames_.push(t - last); last = t; if (on_) requestAnimationFrame(f); }; requestAnimationFrame(f); } 0`,
		)
		var again []registry.Boot
		for i := range 500 {
			again = append(again, boots[i*20])
		}
		s.update(func(tx *registry.Tx) (err error) {
			for i := range again {
				again[i].ID, again[i].Started = fleet.BootID(fmt.Sprintf("%016x", 1_000_000+i)), s.now()
				err = errors.Join(err, tx.CreateBoot(again[i]))
			}
			return err
		})
		for _, stage := range []trace.Stage{trace.DHCP, trace.Kernel, trace.Init, trace.Manifest, trace.Root,
			trace.Booted} {
			s.clock.add(time.Second)
			s.appendAll(again, stage)
			count := fmt.Sprintf(`document.querySelectorAll(".t.booting.p%d").length === 500`, trace.Rank(stage))
			if stage == trace.Booted {
				count = fmt.Sprintf(`document.querySelectorAll(".t.booted").length === %d`, benchNodes)
			}
			v.Until(count)
		}
		var frames []float64
		if err := v.Eval(v.ctx, `(on_ = false, frames_.slice(1).sort((a, b) => a - b))`, &frames); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(frames[len(frames)/2], "ms-frame-p50")
		b.ReportMetric(frames[len(frames)*95/100], "ms-frame-p95")
		b.ReportMetric(frames[len(frames)-1], "ms-frame-max")
	}
	if raw, err := json.Marshal(v.Problems()); err != nil || string(raw) != "null" {
		b.Errorf("%s %v", raw, err)
	}
}
