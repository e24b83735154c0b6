package dhcp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// An interface that is deleted and created again while the server runs is served again, as server and as proxy.
func TestInterfaceMadeAgain(t *testing.T) {
	for _, spec := range []helperSpec{ownSpec(), proxySpec()} {
		t.Run(string(spec.Config.Mode), func(t *testing.T) {
			t.Parallel()
			net := newNetns(t, "10.77.0.1/24")
			s := net.serve(spec)
			c := net.client(aliceMAC)
			answers := func() {
				t.Helper()
				for _, a := range replayed(c, "ovmf-pxe-discover", "") {
					if a.Type == "OFFER" && a.Server == ip4("10.77.0.1") && a.File == "snponly.efi" {
						return
					}
				}
				t.Errorf("no answer\n%s", s.dump())
			}
			answers()
			for range 2 {
				net.run("ip", "link", "del", "br0")
				s.until("lost", 10*time.Second, says("ERROR", "THE INTERFACE IS GONE", "br0"))
				net.bridge("") // it has no address yet
				net.run("ip", "addr", "add", "10.77.0.1/24", "dev", "br0")
				s.until("back", 20*time.Second, says("WARN", "the interface is back", "10.77.0.1"))
				net.join(c, "eth0", net.port(c, "eth0"))
				answers()
			}
			loud := 0
			for _, l := range s.drain() {
				if says("ERROR")(l) || says("WARN")(l) {
					loud++
				}
			}
			if loud != 4 {
				t.Errorf("%d loud lines for two losses\n%s", loud, s.dump())
			}
		})
	}
}

// says matches a log line of a level that has all the words.
func says(level string, words ...string) func(line) bool {
	return func(l line) bool {
		var head struct{ Level string }
		if json.Unmarshal(l.Log, &head) != nil || head.Level != level {
			return false
		}
		for _, w := range words {
			if !strings.Contains(string(l.Log), w) {
				return false
			}
		}
		return true
	}
}

// What is known of other servers is kept when the interface is replaced.
func TestStandingOutlivesTheInterface(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	spec := ownSpec()
	spec.Hurry = 10 * time.Second
	s := net.serve(spec)
	site(net, "--no-ping")
	s.standing(false, 20*time.Second)
	net.run("ip", "link", "del", "br0")
	s.until("lost", 10*time.Second, says("ERROR", "THE INTERFACE IS GONE"))
	net.bridge("10.77.0.1/24")
	s.until("back", 20*time.Second, says("WARN", "the interface is back", `"mode":"proxy"`))
}
