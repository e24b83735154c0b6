package boot

import (
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// A machine whose boot loader verifies digests loads kernel and initramfs from a node that has booted with them. It
// runs the same as if they came from the server, and serves them itself.
func TestRealBootFromNeighbours(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	var from string
	names := []string{"pc001", "pc002"}
	if full() {
		names = append(names, "pc003", "pc004")
	}
	for i, name := range names {
		mac := fleet.MAC{0x52, 0x54, 0, 50, 0, byte(i + 1)}
		n := node{name: name, mac: mac, firmware: testkit.UEFI, group: bookworm}
		m := s.boot(n)
		ended := func(stage trace.Stage) trace.Event {
			return s.waitEvent(name, m, func(e trace.Event) bool { return e.Stage == stage && e.Kind == trace.End })
		}
		kernel, initramfs := ended(trace.Kernel), ended(trace.Initramfs)
		for _, e := range []trace.Event{kernel, initramfs} {
			got, ok := e.Bytes[trace.SourceNeighbour], i > 0
			if (got > 0) != ok || (e.Bytes[trace.SourceK] > 0) == ok || ok && !strings.Contains(e.Message, from) {
				t.Errorf("%s: %s %v, %q", name, e.Stage, e.Bytes, e.Message)
			}
		}
		serves := s.waitEvent(name, m, func(e trace.Event) bool { return e.Attrs[trace.AttrKernelPort] != "" })
		t.Logf("%s: %s; kernel %q %v, initramfs %q %v", name, serves.Message, kernel.Message, kernel.Bytes,
			initramfs.Message, initramfs.Bytes)
		s.prove(n, s.shell(n))
		from = "from node pc00"
	}
}
