package fleet

import "testing"

// TestMACSpellings: the spellings of switches, firmware and servers are accepted, and others are refused.
func TestMACSpellings(t *testing.T) {
	const want = "52:54:00:aa:00:05"
	for _, s := range []string{
		"52:54:00:aa:00:05", "52:54:0:aa:0:5", "52-54-00-AA-00-05", " 52:54:00:AA:00:05\t", "525400AA0005",
		"5254.00aa.0005", "5254-00aa-0005", "5254:00aa:0005", "525400-aa0005", "52.54.00.aa.00.05", "52 54 00 aa 00 05",
		"01-52-54-00-aa-00-05", "01:52:54:00:aa:00:05",
	} {
		if m, err := ParseMAC(s); err != nil || m.String() != want {
			t.Errorf("%q: %s, %v", s, m, err)
		}
	}
	for _, s := range []string{
		"", "52:54:00:aa:00", "52:54:00:aa:00:05:06", "52:54:00-aa:00:05", "5254.00aa:0005", "525.400.aa0.005",
		"5-5-0-a-0-5", "52:54:00:aa:00:0g", "525400aa000", "52:54:00:aa:00:", "52--54-00-aa-00", "02-52-54-00-aa-00-05",
	} {
		if m, err := ParseMAC(s); err == nil {
			t.Errorf("%q is read as %s", s, m)
		}
	}
}
