package serve

import (
	"net/netip"
	"strings"
	"testing"
)

// TestOddFlags: wrong flags are refused by name before the server starts.
func TestOddFlags(t *testing.T) {
	ok := serveFlags{http: ":8480", control: ":8443", tftp: ":69", netconsole: "off", dashboard: "127.0.0.1:8484"}
	if err := ok.check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*serveFlags){
		`--also "ftp://10.0.0.2"`:               func(f *serveFlags) { f.servers = []string{"ftp://10.0.0.2"} },
		`--also "10.0.0.2:8480"`:                func(f *serveFlags) { f.servers = []string{"10.0.0.2:8480"} },
		`--also "http://"`:                      func(f *serveFlags) { f.servers = []string{"http://"} },
		`--also "http://a:xxxxx@10.0.0.2:8480"`: func(f *serveFlags) { f.servers = []string{"http://a:b@10.0.0.2:8480"} },
		"--router 127.0.0.1":                    func(f *serveFlags) { f.routers = []string{"127.0.0.1"} },
		"--router fd00::1":                      func(f *serveFlags) { f.routers = []string{"fd00::1"} },
		"--dns 0.0.0.0":                         func(f *serveFlags) { f.dns = []string{"0.0.0.0"} },
		`--http "off"`:                          func(f *serveFlags) { f.http = "off" },
		`--http "8480"`:                         func(f *serveFlags) { f.http = "8480" },
		`--tftp ":99999"`:                       func(f *serveFlags) { f.tftp = ":99999" },
		`--control "http://a:1"`:                func(f *serveFlags) { f.control = "http://a:1" },
		`--netconsole "on"`:                     func(f *serveFlags) { f.netconsole = "on" },
	} {
		f := ok
		change(&f)
		if err := f.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f := ok
	f.servers = []string{"http://10.0.0.2:8480", "https://images.lab/pando"}
	if err := f.check(); err != nil {
		t.Error(err)
	}
	subnet, router := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParseAddr("10.0.1.1")
	if err := routersIn(subnet, []netip.Addr{router}); err == nil ||
		!strings.Contains(err.Error(), "--router 10.0.1.1") {
		t.Errorf("a router of another subnet: %v", err)
	}
	if err := routersIn(subnet, []netip.Addr{netip.MustParseAddr("10.0.0.1")}); err != nil {
		t.Error(err)
	}
}
