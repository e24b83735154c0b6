package dhcp

import (
	"os"
	"strings"
	"testing"
	"time"
)

// Errors at the start say what to do about them.
func TestOpenErrors(t *testing.T) {
	net := newNetns(t, "")
	net.run("ip", "link", "add", "off", "type", "bridge")
	tests := []struct {
		name string
		edit func(*helperSpec)
		want string
	}{
		{"no such interface", func(s *helperSpec) { s.Config.Interfaces = []string{"eth9"} }, "interface eth9"},
		{"no address", func(*helperSpec) {}, "ip address add"},
		{"not an Ethernet", func(s *helperSpec) { s.Config.Interfaces = []string{"lo"} }, "not an Ethernet"},
		{"no range", func(s *helperSpec) { s.Config.Subnets = nil }, "--range"},
		{
			"look where the link is down",
			func(s *helperSpec) { s.Look, s.LookFor, s.Config.Interfaces = true, time.Second, []string{"off"} },
			"ip link set off up",
		},
	}
	for _, tt := range tests {
		spec := ownSpec()
		tt.edit(&spec)
		out, err := net.helperFails(spec)
		if err == nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v: %s", tt.name, err, out)
		}
	}
}

// helperFails runs a helper that is expected to end by itself.
func (n *netns) helperFails(spec helperSpec) (string, error) {
	n.t.Helper()
	// A helper stops when its standard input ends; this one is to end before that.
	stdin, hold, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	defer stdin.Close()
	defer hold.Close()
	cmd := n.helper(spec)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()
	return string(out), err
}
