package image

import "testing"

func TestNoUploader(t *testing.T) {
	named := func(names ...string) (out []Package) {
		for _, n := range names {
			out = append(out, Package{Name: n})
		}
		return out
	}
	for name, c := range map[string]struct {
		p    Provenance
		want bool
	}{
		"nothing is known": {Provenance{}, false},
		"the build looked": {Provenance{Lacks: []string{"ssh", LacksUploader}, Packages: named("apk-tools")},
			true},
		"it lacks else":         {Provenance{Lacks: []string{"ssh"}}, false},
		"Debian without it":     {Provenance{Packages: named("dpkg", "systemd")}, true},
		"Debian with it":        {Provenance{Packages: named("dpkg", "systemd", UploaderPackage)}, false},
		"Debian has no systemd": {Provenance{Packages: named("dpkg", "runit")}, false},
	} {
		if got := c.p.NoUploader(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
