package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// failures returns the failures on a boot's timeline as "stage: message".
func (s *site) failures(id fleet.BootID, kind trace.Kind) (out []string) {
	s.t.Helper()
	s.flushHistory()
	events, err := s.registry.Events(s.t.Context(), registry.EventFilter{Boot: id})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == kind {
			out = append(out, string(e.Stage)+": "+e.Message)
		}
	}
	return out
}

// latestOf returns the latest boot of a machine.
func (s *site) latestOf(mac fleet.MAC) (id fleet.BootID) {
	s.t.Helper()
	err := s.registry.View(s.t.Context(), func(tx *registry.Tx) error {
		b, err := tx.Boots(registry.BootFilter{MAC: mac, Limit: 1})
		if err == nil {
			id = b[0].ID
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// A request of a booting machine that is refused is on its timeline once. Its iPXE gets a script that shows the reason
// and tries again, because iPXE shows nothing of an HTTP error.
func TestRefusedRequestsAreTold(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	n.exchange(netboot.IPXE)
	boot := s.latestOf(n.mac)
	mac := strings.ReplaceAll(n.mac.String(), ":", "-")
	for range 3 {
		status, b := n.get("/boot/script?mac=" + mac + "&product=Kontron;S%zz")
		if status != http.StatusOK || !strings.Contains(string(b), "boot script query") ||
			!strings.Contains(string(b), "product.hex=${product:hexraw}") {
			t.Errorf("status %d, %s", status, b)
		}
	}
	n.refusedTo("/boot/file/pxelinux.0", http.StatusNotFound, "pxelinux.0")
	n.refusedTo("/boot/"+string(boot)+"/initramfs", http.StatusConflict, "no script was sent")
	kernel, _ := urls(t, n.script())
	id, err := chunk.ParseID(strings.TrimPrefix(kernel, "/o/"))
	if err == nil {
		err = os.Remove(s.store.ObjectPath(id))
	}
	if err != nil {
		t.Fatal(err)
	}
	n.refusedTo(kernel, http.StatusNotFound, "")
	if e := n.post("/v1/node/hello", "", api.RegisterRequest{Boot: boot, MAC: n.mac, Token: "x"}, nil); e == nil {
		t.Error("hello with a wrong token was taken")
	}
	want := []string{"script: boot script query", "bootfile: boot file", "initramfs: boot " + string(boot), "kernel: ",
		"hello: registration refused: unknown token"}
	got := s.failures(boot, trace.Fail)
	for i := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("on the timeline: %q, want %q", got, want)
		}
	}
	s.booter.ObserveTFTP(tftp.Transfer{Name: "pxelinux.0", Peer: netip.AddrPortFrom(n.addr, 2000),
		Err: fmt.Errorf("open: %w", http.ErrMissingFile)})
	if got := s.failures(boot, trace.Info); len(got) == 0 || !strings.Contains(got[len(got)-1], "pxelinux.0") {
		t.Errorf("the file that TFTP has not: %q", got)
	}
	for i := range 200 { // repeated requests do not fill a timeline
		n.get(fmt.Sprintf("/boot/file/%d", i))
	}
	if got := s.failures(boot, trace.Fail); len(got) > 64 {
		t.Errorf("%d failures", len(got))
	}
}
