package server

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// attemptsOf returns the boots of a machine, the newest first, and each as "state: failure".
func (s *site) attemptsOf(mac fleet.MAC) (boots []registry.Boot, states []string) {
	s.t.Helper()
	err := s.registry.View(s.t.Context(), func(tx *registry.Tx) (err error) {
		boots, err = tx.Boots(registry.BootFilter{MAC: mac})
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range boots {
		p := s.progress(b.ID)
		states = append(states, strings.TrimSuffix(string(p.State)+": "+p.Failure, ": "))
	}
	return boots, states
}

// loadScripted loads script, kernel and initramfs, without the steps of firmware.
func (n *node) loadScripted() api.BootConfig {
	n.t.Helper()
	kernel, initramfs := urls(n.t, n.script())
	if status, _ := n.get(kernel); status != 200 {
		n.t.Fatalf("kernel: status %d", status)
	}
	_, b := n.get(initramfs)
	return trust(n.t, b)
}

// A machine that resets twice with its kernel loaded, and then comes up, has three boots, each with its own duration:
// two failed and one successful. The statistics count each. This holds whether the server sees the firmware's packets
// or not.
func TestEachAttemptIsABoot(t *testing.T) {
	for name, firmware := range map[string]func(*node){
		"firmware is seen": func(n *node) { n.exchange(netboot.PXE) },
		"iPXE in ROM":      func(*node) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t)
			s.addImage()
			n := s.node(1)
			var cfg api.BootConfig
			for i := range 3 {
				if i > 0 {
					n.wait(100 * time.Second) // in its kernel
				}
				firmware(n)
				n.wait(2 * time.Second)
				s.booter.BootFileSent(n.addr, "undionly.kpxe", 70_000, s.clock.now(), nil)
				n.exchange(netboot.IPXE)
				cfg = n.loadScripted()
			}
			resp := n.register(cfg)
			n.wait(10 * time.Second)
			up := api.ReportRequest{Boot: cfg.Boot, Uptime: 10 * time.Second,
				Events: []trace.Event{{Stage: trace.Booted, Kind: trace.End, Offset: 8 * time.Second}}}
			if e := n.post("/v1/node/events", "Bearer "+resp.Session, up, nil); e != nil {
				t.Fatal(e)
			}
			boots, states := s.attemptsOf(n.mac)
			want := "booted, failed: the machine started again before it was up, " +
				"failed: the machine started again before it was up"
			if got := strings.Join(states, ", "); got != want || boots[0].ID != cfg.Boot {
				t.Fatalf("boots: %s", got)
			}
			p := s.progress(cfg.Boot)
			if took := p.Elapsed(); took > 30*time.Second {
				t.Errorf("the last boot took %s", took)
			}
			if took := s.progress(boots[1].ID).Elapsed(); took < 90*time.Second || took > 2*time.Minute {
				t.Errorf("the one before took %s", took)
			}
			events := strings.Join(s.eventsOf(cfg.Boot), ", ")
			if want := "dhcp begin, dhcp end, bootfile begin, bootfile end"; name == "firmware is seen" &&
				!strings.Contains(events, want) {
				t.Errorf("the last one's timeline: %s", events)
			}
			s.settled()
			c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
			got, err := c.HistoryFigures(t.Context(), "group", api.HistoryQuery{})
			if err != nil || len(got.Of) != 1 || got.Of[0].Boots != 1 || got.Of[0].Failures != 2 ||
				got.Of[0].Max > 30*time.Second {
				t.Errorf("figures: %+v, %v", got.Of, err)
			}
		})
	}
}
