package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/registry"
	"pando/internal/trace"
)

// sent holds an example request for each node route except the journal (FuzzWhatNodesLog). BOOT stands for the node's
// boot; FRESH, MAC and TOKEN stand for those of a boot that has just loaded its initramfs.
var sent = []struct{ path, body string }{
	{"begin", `{"mac":"52:54:00:00:00:01","runs":true,"uptime":5000000000}`},
	{
		"hello",
		`{"boot":"BOOT","mac":"52:54:00:00:00:01","token":"x","nonce":"y","hardware":{"vendor":"QEMU","cpus":2,"memory":1,"nics":[]}}`,
	},
	{
		"hello",
		`{"boot":"FRESH","mac":"MAC","token":"TOKEN","nonce":"y","addr":"x","release":"\u0000","hardware":{"vendor":"QEMU","serial":"S","uuid":"U","cpus":-2,"memory":1,"firmware":"bios","nics":[{"mac":"MAC","driver":"e1000","name":"eth0","pci":"0000:00:03.0"}]},"tpm":{"key":"AA==","signature":"AA=="}}`,
	},
	{
		"events",
		`{"boot":"BOOT","uptime":1,"events":[{"stage":"root","kind":"fail","message":"\u001b[2J","hint":"<b>","attempt":-1,"attrs":{"panic":"x"}}],"console":"a\u0000b\nKernel panic","pstore":"Panic#1\n<0>x"}`,
	},
	{
		"events",
		`{"boot":"BOOT","uptime":2000000000,"events":[{"stage":"root","kind":"end","bytes":{"server":-1}}],"status":{"upper_used":9,"upper_total":-1}}`,
	},
	{"trace", `{"boot":"BOOT","version":"sha256:00","reads":"AAECAw==","reached":{"booted":1}}`},
	{"medium", `{"boot":"BOOT","slots":[{"version":"x","sequence":18446744073709551615}],"size":1000000000}`},
	{
		"errand",
		`{"boot":"BOOT","id":"1","disks":[{"name":"/dev/vda","size":-5}],"files":[{"path":"/etc/x"}],"error":"\u001b[31m"}`,
	},
	{"volume", `{"boot":"BOOT"}`},
	{"kexec", `{"boot":"BOOT"}`},
	{"stage", `{"boot":"BOOT"}`},
	{"next", `{"boot":"BOOT"}`},
	{"extensions", `{"boot":"BOOT"}`},
	{"config", `{"boot":"BOOT"}`},
	{"state/send?boot=BOOT&order=x", "an archive"},
	{"state/fetch", `{"boot":"BOOT","order":"x"}`},
}

// FuzzWhatNodesSend sends bodies to a real server as a running node. They are accepted or refused without a server
// error, and nothing about another node changes.
func FuzzWhatNodesSend(f *testing.F) {
	s := startSite(f, func(c *Config) { c.Log = slog.New(slog.DiscardHandler) })
	s.addImage()
	r := readRecorded(f)
	p, other, third := s.node(1).play(r), s.node(2).replay(r, trace.Booted), s.node(3)
	fresh := third.load() // its registration may be repeated, because the clock stands still
	named := strings.NewReplacer(
		"BOOT",
		string(p.boot),
		"FRESH",
		string(fresh.Boot),
		"MAC",
		third.mac.String(),
		"TOKEN",
		fresh.Token,
	)
	for route := range s.nodeRoutes() {
		if route != "journal/upload" &&
			!slices.ContainsFunc(
				sent,
				func(x struct{ path, body string }) bool {
					path, _,
						_ := strings.Cut(x.path, "?")
					return path == route
				},
			) {
			f.Errorf("nothing is sent to %s", route)
		}
	}
	for i, x := range sent {
		f.Add(uint8(i), []byte(x.body))
		f.Add(uint8(i), []byte(`null`))
		f.Add(uint8(i), []byte(`{"boot":"`+string(other)+`","hardware":null,"events":null,"uptime":-1}`))
	}
	ctx := f.Context()
	known := func() (b registry.Boot, p registry.Progress, err error) {
		err = s.registry.View(ctx, func(tx *registry.Tx) error {
			b, err = tx.Boot(other)
			return err
		})
		if err != nil {
			return b, p, err
		}
		all, err := s.registry.Progress(ctx, other)
		return b, all[other], err
	}
	boot, before, err := known()
	if err != nil {
		f.Fatal(err)
	}
	routes := s.controlRoutes()
	f.Fuzz(func(t *testing.T, route uint8, body []byte) {
		path := "/v1/node/" + named.Replace(sent[int(route)%len(sent)].path)
		req := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(named.Replace(string(body))))
		req.RemoteAddr = "127.0.0.1:1024"
		req.Header.Set("Authorization", "Bearer "+p.session)
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, req)
		if w.Code == http.StatusInternalServerError &&
			!slices.Contains([]string{"kexec", "next", "stage"}, filepath.Base(path)) { // these need a full version
			t.Errorf("%s: %s: %s", path, body, w.Body)
		}
		b, now, err := known()
		if err != nil || b.Session != boot.Session || b.Version != boot.Version || now.Updated != before.Updated ||
			now.State != before.State {
			t.Errorf("%s: %s: the other node's boot is %+v %+v %v", path, body, b, now, err)
		}
	})
}
