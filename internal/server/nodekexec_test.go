package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// TestKexec: only a running node with its session gets the files of its next boot.
func TestKexec(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	if status, body := n.postRaw("/v1/node/kexec", "Boot "+cfg.Token, api.NodeKexec{Boot: cfg.Boot}); status/100 == 2 {
		t.Errorf("without a session: %d %s", status, body)
	}
	session := "Bearer " + n.register(cfg).Session
	s.clock.add(time.Hour)
	status, body := n.postRaw("/v1/node/kexec", session, api.NodeKexec{Boot: cfg.Boot})
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	line, rest, _ := bytes.Cut(body, []byte("\n"))
	var next api.NextBoot
	if err := json.Unmarshal(line, &next); err != nil {
		t.Fatal(err)
	}
	if int64(len(rest)) != next.Kernel+next.Initramfs || !bytes.HasPrefix(rest, []byte("kernelkernel")) ||
		next.Boot == cfg.Boot ||
		!strings.Contains(next.Line, "pando.boot="+string(next.Boot)) ||
		!strings.Contains(next.Line, n.mac.BootIF()) {
		t.Fatalf("%d bytes for %+v", len(rest), next)
	}
	second := trust(t, rest[next.Kernel:])
	if second.Boot != next.Boot || second.Token == cfg.Token {
		t.Fatalf("the initramfs is that of %s", second.Boot)
	}
	if status, body := n.postRaw("/v1/node/kexec", session, api.NodeKexec{Boot: cfg.Boot}); status/100 == 2 {
		t.Errorf("a boot that has ended already: %d %s", status, body)
	}
	if got := n.register(second).Session; got == "" {
		t.Error("the next boot has no session")
	}
	b, err := operatorOf(t, s).NodeBoot(t.Context(), "node001")
	if err != nil || b.ID != next.Boot {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, e := range b.Events {
		if e.Stage == trace.DHCP || e.Stage == trace.BootFile {
			t.Errorf("firmware has a stage: %+v", e)
		}
	}
}
