package fleet

import (
	"strings"
	"testing"
)

func TestPowerIsRead(t *testing.T) {
	n := Node{Name: "pc001", Serial: "CZC7", Labels: map[string]string{"bmc": "10.9.0.17", "odd": "x/../y"}}
	pin := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[Power]PowerTo{
		"":                               {Method: PowerWOL},
		"wol":                            {Method: PowerWOL},
		"none":                           {Method: PowerNone},
		"wol://10.0.3.255":               {Method: PowerWOL, Host: "10.0.3.255"},
		"wol://10.0.3.255:7":             {Method: PowerWOL, Host: "10.0.3.255:7"},
		"command:relay":                  {Method: PowerCommand, Command: "relay"},
		"redfish://admin@{node}-bmc.lab": {Method: PowerRedfish, Host: "pc001-bmc.lab", User: "admin"},
		"redfish+http://admin@{bmc}:8000": {Method: PowerRedfish, Host: "10.9.0.17:8000", User: "admin",
			Plain: true},
		"ipmi://root@ipmi-{serial}":       {Method: PowerIPMI, Host: "ipmi-CZC7", User: "root"},
		"ipmi://root@[fd00::17]:6230":     {Method: PowerIPMI, Host: "[fd00::17]:6230", User: "root"},
		Power("redfish://a@b?tls=" + pin): {Method: PowerRedfish, Host: "b", User: "a", TLS: pin},
		"redfish://a@b?system=Self.1&tls=any": {Method: PowerRedfish, Host: "b", User: "a", System: "Self.1",
			TLS: "any"},
	} {
		if got, err := n.PowerTo(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[Power]string{
		"wool":                          "no address of a known kind",
		"http://a@b":                    `"http" is no method`,
		"wol://pc001":                   "no IPv4 broadcast address",
		"redfish://bmc":                 "it names no user",
		"redfish://a:secret@b":          "it names no user",
		"redfish://a@":                  "no host",
		"redfish://a@b/c":               "no host",
		"ipmi://a@{}":                   "braces",
		"ipmi://a@{b":                   "braces",
		"ipmi://a@b?tls=any":            "is not an option of an address for",
		"redfish+http://a@b?tls=any":    "is not an option of an address for",
		"redfish://a@b?tls=sha256:00":   "is not an option of an address for",
		"redfish://a@b?tls=any&tls=any": "given twice",
		"command:../x":                  "hook name",
		"ipmi://a@{rack}":               "it has no rack",
		"ipmi://a@{odd}":                "is no part of an address",
	} {
		if _, err := n.PowerTo(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestSecureOn(t *testing.T) {
	for text, want := range map[string]int{"": 0, "01:02:03:04:05:06": 6, "1.2.3.4": 4} {
		if got, err := SecureOn(text); err != nil || len(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := SecureOn("sesame"); err == nil {
		t.Error("a word was taken for a password of a network card")
	}
}

func FuzzPower(f *testing.F) {
	for _, s := range []string{"", "wol://10.0.0.255:9", "redfish://admin@{node}-bmc?system=1&tls=any",
		"ipmi://a@[::1]:623", "command:relay"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		to, err := Node{Name: "pc001", Serial: "1"}.PowerTo(Power(s))
		if err != nil {
			return
		}
		if strings.ContainsAny(to.Host+to.User, "/ \n{}") || to.Secret() && (to.Host == "" || to.User == "") {
			t.Errorf("%q is %+v", s, to)
		}
	})
}
