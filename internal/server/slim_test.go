package server

import (
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/trace"
)

func TestImageSlim(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	files := debian(
		map[string]string{"libread": "1", "libnever": "1"},
		map[string][]byte{"libread": program(1, 100_000), "libnever": program(2, 300_000)},
	)
	files["opt/game/data/level"] = program(3, 200_000)
	const wants = "etc/systemd/system/multi-user.target.wants/"
	for _, name := range []string{wants + "ssh.service", wants + "NetworkManager-wait-online.service",
		"usr/lib/systemd/system-generators/lvm2-activation-generator"} {
		files[name] = []byte("x")
	}
	m, version := s.addRoot(files)
	none, err := c.ImageSlim(t.Context(), "lab")
	if err != nil || none.Boots != 0 || none.Version != version || len(none.Packages)+len(none.Places) > 0 ||
		len(none.Units) != 3 {
		t.Fatalf("%+v, %v", none, err)
	}
	_, send := s.boot(1, "")
	if e := send(api.TraceRequest{Reads: trace.EncodeReads(s.readsOf(m, "usr/lib/libread.so"))}); e != nil {
		t.Fatal(e)
	}
	got, err := c.ImageSlim(t.Context(), "lab")
	if err != nil || got.Boots != 1 || got.Unread < 500_000 || got.Unread >= got.Size {
		t.Fatalf("%+v, %v", got, err)
	}
	if want := []api.SlimPackage{{Name: "libnever", Files: 1, Size: 300_000}}; !slices.Equal(got.Packages, want) {
		t.Errorf("packages %+v, want %+v", got.Packages, want)
	}
	if p := got.Places[0]; p != (api.SlimPackage{Name: "/opt/game/data", Files: 1, Size: 200_000}) {
		t.Errorf("places %+v", got.Places)
	}
	advice := map[string]string{}
	for _, u := range got.Units {
		advice[u.Name] = u.Advice
	}
	if !strings.Contains(advice["NetworkManager-wait-online.service"], "network") ||
		!strings.Contains(advice["lvm2-activation-generator"], "disks") ||
		advice["ssh.service"] != "" {
		t.Errorf("advice %+v", advice)
	}
	_, err = c.ImageSlim(t.Context(), "lab:none")
	wantCode(t, err, api.NotFound, "none")
}
