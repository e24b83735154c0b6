package dhcp

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pando/internal/fleet"
)

func TestProposeRange(t *testing.T) {
	tests := []struct{ prefix, own, first, last string }{
		{"192.168.1.0/24", "192.168.1.10", "192.168.1.128", "192.168.1.229"},
		{"192.168.1.0/24", "192.168.1.140", "192.168.1.141", "192.168.1.229"},
		{"192.168.1.0/24", "192.168.1.220", "192.168.1.128", "192.168.1.219"},
		{"10.0.0.0/8", "10.0.0.1", "10.0.128.0", "10.0.230.101"},
		{"10.1.0.0/28", "10.1.0.1", "10.1.0.8", "10.1.0.13"},
		{"10.1.0.0/29", "10.1.0.1", "", ""},
		{"fd00::/64", "fd00::1", "", ""},
	}
	for _, tt := range tests {
		first, last, err := ProposeRange(netip.MustParsePrefix(tt.prefix), ip4(tt.own))
		if tt.first == "" {
			if err == nil {
				t.Errorf("%s: no error", tt.prefix)
			}
			continue
		}
		if err != nil || first != ip4(tt.first) || last != ip4(tt.last) {
			t.Errorf("%s with %s: %s-%s, %v, want %s-%s", tt.prefix, tt.own, first, last, err, tt.first, tt.last)
		}
	}
}

// A proposed range is one that a Subnet accepts, and does not have the server's own address.
func TestProposedRangeIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := netip.PrefixFrom(address(rapid.Uint32().Draw(t, "base")), rapid.IntRange(4, 28).Draw(t, "bits"))
		own := address(number(p.Masked().Addr()) + rapid.Uint32Range(1, 14).Draw(t, "own"))
		first, last, err := ProposeRange(p, own)
		if err != nil {
			t.Fatal(err)
		}
		s := Subnet{Prefix: p, First: first, Last: last}
		if err := s.validate(); err != nil || s.inRange(own) {
			t.Errorf("%s with %s: %s-%s: %v", p, own, first, last, err)
		}
	})
}

// Candidates are addresses of the range, each once, the same order each time.
func TestCandidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint32Range(1<<24, 1<<31).Draw(t, "first")
		size := rapid.Uint32Range(1, 300).Draw(t, "size")
		s := Subnet{Prefix: netip.PrefixFrom(address(first), 1), First: address(first), Last: address(first + size - 1)}
		mac := fleet.MAC(rapid.SliceOfN(rapid.Byte(), 6, 6).Draw(t, "mac"))
		seen := map[netip.Addr]bool{}
		for a := range s.candidates(mac) {
			if seen[a] || !s.inRange(a) {
				t.Fatalf("%s comes twice or is outside", a)
			}
			seen[a] = true
		}
		if len(seen) != int(size) {
			t.Fatalf("%d candidates of %d", len(seen), size)
		}
	})
}

func TestConfigValidate(t *testing.T) {
	good := func() Config {
		return Config{Mode: Own, Interfaces: []string{"eth0"}, Subnets: []Subnet{*testSubnet()}}
	}
	tests := []struct {
		edit func(*Config)
		want string
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { *c = Config{} }, ""},
		{func(c *Config) { *c = Config{Mode: Off} }, ""},
		{func(c *Config) { c.Mode, c.Subnets = Proxy, nil }, ""},
		{func(c *Config) { c.Subnets[0].First, c.Subnets[0].Last = netip.Addr{}, netip.Addr{} }, ""},
		{func(c *Config) { c.Mode = "both" }, "use off, own or proxy"},
		{func(c *Config) { c.Interfaces = nil }, "--interface"},
		{func(c *Config) { c.Subnets = nil }, "--range"},
		{func(c *Config) { c.Subnets = append(c.Subnets, c.Subnets[0]) }, "overlaps"},
		{func(c *Config) { c.Subnets[0].Prefix = netip.Prefix{} }, "IPv4 prefix"},
		{func(c *Config) { c.Subnets[0].Prefix = netip.MustParsePrefix("fd00::/64") }, "IPv4 prefix"},
		{func(c *Config) { c.Subnets[0].Prefix = netip.MustParsePrefix("10.77.0.0/31") }, "at most 30 bits"},
		{func(c *Config) { c.Subnets[0].Last = ip4("10.77.0.99") }, "not a range"},
		{func(c *Config) { c.Subnets[0].Last = ip4("10.77.0.255") }, "not a range"},
		{func(c *Config) { c.Subnets[0].First = ip4("10.76.0.1") }, "not a range"},
		{func(c *Config) { c.Subnets[0].First = netip.Addr{} }, "not a range"},
		{func(c *Config) { c.Subnets[0].Search = []string{"lab..test"} }, "not a domain name"},
		{func(c *Config) { c.Subnets[0].Domain = strings.Repeat("a", 64) }, "not a domain name"},
		{func(c *Config) { c.Subnets[0].DNS = []netip.Addr{netip.IPv6LinkLocalAllNodes()} }, "not an IPv4 address"},
	}
	for i, tt := range tests {
		c := good()
		tt.edit(&c)
		if err := c.Validate(); (err == nil) != (tt.want == "") ||
			err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d: %v, want %q", i, err, tt.want)
		}
	}
	for s, ok := range map[string]bool{"own": true, "proxy": true, "off": true, "": false, "Own": false} {
		if _, err := ParseMode(s); (err == nil) != ok {
			t.Errorf("ParseMode(%q): %v", s, err)
		}
	}
}
