package serve

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/exitcode"
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
	subnet := netip.MustParsePrefix("10.0.0.0/24")
	for addr, want := range map[string]string{
		"10.0.1.1": "--router 10.0.1.1 is not in", "10.0.0.0": "--router 10.0.0.0 is the network or broadcast",
		"10.0.0.255": "--router 10.0.0.255 is the network or broadcast", "10.0.0.1": "",
	} {
		err := checkMachines(subnet, []netip.Addr{netip.MustParseAddr(addr)}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--router %s: %v", addr, err)
		}
	}
	if err := checkMachines(subnet, nil, []netip.Addr{netip.MustParseAddr("10.0.0.255")}); err == nil {
		t.Error("a name server at the broadcast address")
	}
	if err := checkMachines(subnet, nil, []netip.Addr{netip.MustParseAddr("9.9.9.9")}); err != nil {
		t.Error(err)
	}
}

// TestClientSecretThatOthersHave: the client secret of OpenID is a secret as the keys are.
func TestClientSecretThatOthersHave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := openidFlags{issuer: "https://login.example/realms/lab", client: "pando", secret: file,
		roles: []string{"operator=it"}, claim: "groups", name: "name"}
	if c, err := f.config(); err != nil || c.Secret != "s3cret" {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.config(); err == nil || !strings.Contains(err.Error(), "others may read or write it") ||
		!strings.Contains(exitcode.HintOf(err), "chmod") {
		t.Errorf("a secret that all may read: %v", err)
	}
}
