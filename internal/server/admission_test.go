package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/bootlog"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// slots sets the number of admission slots of a site.
func slots(n int) func(*Config) {
	return func(c *Config) { c.nodeLink, c.Uplink = 1e6, int64(n)*1e6/2 }
}

// loading counts the machines that have a script and have not requested their initramfs. Each of them has a slot.
type loading struct {
	mu           sync.Mutex
	more         sync.Cond
	active, peak int
	waited       int // machines that were told to wait
}

func (l *loading) enter(waited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active++
	if l.peak = max(l.peak, l.active); waited {
		l.waited++
	}
	l.more.Broadcast()
}

// leave waits until `slots` machines have loaded at the same time. After that it does not wait.
func (l *loading) leave(slots int, full func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.peak < slots {
		l.more.Wait()
	}
	if full != nil && l.active == slots {
		full()
	}
	l.active--
}

// TestAdmission is a storm of forty machines at a server with four slots: at most four load at the same time, four do
// at some time, and all of them boot.
func TestAdmission(t *testing.T) {
	const nodes, most = 40, 4
	s := startSite(t, slots(most))
	s.addImage()
	if got := s.admission.Status(); got.Slots != most || got.Loading != 0 || got.Uplink != 2e6 {
		t.Fatalf("before the storm: %+v", got)
	}
	var l loading
	l.more.L = &l.mu
	full := func() {
		if got := s.admission.Status(); got.Loading > most || got.Loading+got.Waiting > nodes {
			t.Errorf("in the storm: %+v", got)
		}
	}
	boots := make(chan fleet.BootID, nodes)
	for i := range nodes {
		n := s.nodeAt(byte(i), netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)}))
		n.fast = true
		go func() {
			var boot fleet.BootID
			defer func() { boots <- boot }()
			n.exchange(netboot.IPXE)
			script, waited := n.admitted()
			l.enter(waited > 0)
			kernel, initramfs := urls(t, script)
			n.get(kernel)
			l.leave(most, full)
			_, b := n.get(initramfs)
			cfg := trust(t, b)
			n.register(cfg)
			boot = cfg.Boot
		}()
	}
	waits := 0
	for range nodes {
		waits += s.checkAdmission(<-boots)
	}
	if l.peak != most {
		t.Errorf("%d loaded at the same time", l.peak)
	}
	if waits != l.waited || waits == 0 {
		t.Errorf("%d machines waited, %d say so on their timelines", l.waited, waits)
	}
	if got := s.admission.Status(); got.Loading != 0 || got.Waiting != 0 {
		t.Errorf("after the storm: %+v", got)
	}
}

// checkAdmission returns 1 if a boot's timeline says that it waited. It fails if the timeline says so twice.
func (s *site) checkAdmission(boot fleet.BootID) int {
	s.t.Helper()
	if boot == "" {
		s.t.Fatal("a machine did not boot")
	}
	events, err := s.registry.Events(s.t.Context(), registry.EventFilter{Boot: boot})
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Stage == trace.Script && e.Kind == trace.Info &&
			strings.HasPrefix(e.Message, "waits for its turn: place ") {
			n++
		}
	}
	if n > 1 {
		s.t.Errorf("boot %s: %d events say that it waits", boot, n)
	}
	return n
}

// TestAdmissionEnds: a slot becomes free when a transfer breaks off, and when a machine that has its script goes
// silent.
func TestAdmissionEnds(t *testing.T) {
	s := startSite(t, slots(2))
	big := s.bigObject()
	s.addImage(func(m *image.Manifest) { m.Kernel.Object, m.Kernel.Size = big, 64<<20 })
	a, b, c, d := s.node(1), s.nodeAt(2, loopback(2)), s.nodeAt(3, loopback(3)), s.nodeAt(4, loopback(4))
	for _, n := range []*node{a, b, c, d} {
		n.fast = true
		n.exchange(netboot.IPXE)
	}
	kernel, _ := urls(t, a.script())
	urls(t, b.script())
	if script := c.script(); !strings.Contains(script, "place 1, about ") || !strings.Contains(script, "\nsleep ") {
		t.Fatalf("third machine:\n%s", script)
	}
	if script := d.script(); !strings.Contains(script, "place 2, about ") {
		t.Fatalf("fourth machine:\n%s", script)
	}
	a.breakOff(kernel)
	script, _ := c.admitted()
	urls(t, script)
	if script := d.script(); !strings.Contains(script, "place 1, about ") {
		t.Fatalf("fourth machine:\n%s", script)
	}
	s.clock.add(21 * time.Second) // b and c are turned off
	urls(t, d.script())
	if got := s.admission.Status(); got.Loading != 1 || got.Waiting != 0 {
		t.Errorf("in the end: %+v", got)
	}
}

// TestTooMuchToLoad: a machine whose firmware lacks memory for the files is told so, and does not load them.
func TestTooMuchToLoad(t *testing.T) {
	s := startSite(t)
	big := s.bigObject()
	s.addImage(func(m *image.Manifest) {
		for i := range 9 {
			m.Drivers = append(m.Drivers, image.Driver{Name: fmt.Sprintf("big%d", i), Object: big, Size: 64 << 20})
		}
	})
	n := s.node(1)
	n.exchange(netboot.IPXE)
	if script := n.script(); !strings.Contains(script, "kernel and drivers have 604.3 MB, more than 536.9 MB") {
		t.Errorf("script:\n%s", script)
	}
}

func loopback(n byte) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 3, n}) }

// bigObject stores an object that is larger than the buffers of sockets.
func (s *site) bigObject() (id chunk.ID) {
	s.t.Helper()
	unlock, err := s.store.Lock(s.t.Context(), "test")
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	w := s.store.NewWriter()
	defer w.Close()
	id, _, err = w.Put(s.t.Context(), make([]byte, 64<<20))
	if err = errors.Join(err, w.Sync(s.t.Context())); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// breakOff starts to load a file, and closes the connection in the middle.
func (n *node) breakOff(path string) {
	n.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: n.addr.AsSlice()}}
	conn, err := dialer.DialContext(n.t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", n.ports.Data))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1<<20)); err != nil {
		n.t.Fatal(err)
	}
}

// TestAdmissionTakesLong: a machine that waits for longer than any boot takes is still in the same boot. It repeats its
// DHCP exchange when the last one gets old.
func TestAdmissionTakesLong(t *testing.T) {
	s := startSite(t, slots(2))
	s.addImage()
	n := s.nodeAt(99, loopback(99))
	for i := range byte(14) { // each keeps a slot for the longest time allowed
		s.admission.Request(fleet.MAC{5: i})
	}
	n.fast = true
	n.exchange(netboot.IPXE)
	n.script()
	boot := s.boots.At(n.addr).Boot.ID
	renewed := 0
	for {
		s.clock.add(10 * time.Second)
		for i := range byte(14) {
			s.admission.Request(fleet.MAC{5: i})
		}
		script := n.script()
		if now := s.boots.At(n.addr).Boot.ID; now != boot {
			t.Fatalf("the machine began boot %s while it waited in %s", now, boot)
		}
		if !strings.Contains(script, " waits for its turn to load: ") {
			break
		}
		if strings.Contains(
			script,
			"\nifconf --configurator dhcp netX || ifconf --configurator dhcp || dhcp ||\nset tries",
		) {
			renewed++
			n.exchange(netboot.IPXE)
		}
	}
	n.exchange(netboot.IPXE) // its transfer broke off
	if now := s.boots.At(n.addr).Boot.ID; now != boot {
		t.Errorf("the machine began boot %s when its turn in %s had come", now, boot)
	}
	if waited := s.now().Sub(s.boots.At(n.addr).Boot.Started); waited < bootlog.Continues {
		t.Errorf("the machine waited only %s", waited)
	}
	if s.checkAdmission(boot) != 1 {
		t.Error("its timeline does not say that it waited")
	}
	if renewed == 0 {
		t.Error("the machine never did its DHCP again")
	}
}
