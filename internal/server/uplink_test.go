package server

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInterfaceRate(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"eth0": "1000\n", "eth1": "2500\n", "virtio": "-1\n", "odd": "fast\n"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "speed"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		names []string
		want  int64
	}{
		{[]string{"eth0"}, 125_000_000},
		{[]string{"eth0", "eth1"}, 437_500_000},
		{[]string{"virtio"}, 0},
		{[]string{"odd"}, 0},
		{[]string{"missing"}, 0},
		{[]string{"../" + filepath.Base(dir) + "/eth0"}, 125_000_000}, // only the last part of a name counts
	}
	for _, tt := range tests {
		if got := interfaceRate(dir, tt.names); got != tt.want {
			t.Errorf("rate of %v is %d, want %d", tt.names, got, tt.want)
		}
	}
}

func TestLinks(t *testing.T) {
	c := Config{Uplink: 5, nodeLink: 7}
	if l := c.links(); l.Server != 5 || l.Node != 7 {
		t.Errorf("links that were set: %+v", l)
	}
	c = Config{}
	c.DHCP.Interfaces = []string{"no-such-interface"}
	if l := c.links(); l.Server != gigabit || l.Node != gigabit {
		t.Errorf("links that nothing is known of: %+v", l)
	}
}
