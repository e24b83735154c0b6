package image

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

// What the JSON schema of SPDX 2.3 requires of each object, and the spelling that the standard gives.
var spdxRequired = map[string][]string{
	"":              {"SPDXID", "creationInfo", "dataLicense", "name", "spdxVersion", "documentNamespace"},
	"creationInfo":  {"created", "creators"},
	"packages":      {"SPDXID", "downloadLocation", "name"},
	"relationships": {"spdxElementId", "relationshipType", "relatedSpdxElement"},
	"externalRefs":  {"referenceCategory", "referenceLocator", "referenceType"},
	"checksums":     {"algorithm", "checksumValue"},
}

func requireFields(t *testing.T, where string, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			requireFields(t, where, x)
		}
	case map[string]any:
		for _, f := range spdxRequired[where] {
			if s, ok := v[f]; !ok || s == "" {
				t.Errorf("an object of %q has no %s: %v", where, f, v)
			}
		}
		for k, x := range v {
			requireFields(t, k, x)
		}
	}
}

func TestSPDX(t *testing.T) {
	c := Contents{
		Name:    "lab",
		Version: fleet.Digest("sha256:" + strings.Repeat("0a", 32)),
		System:  "debian",
		Release: "12",
		Builder: "v1+2",
		Built:   time.Date(2026, 11, 21, 12, 0, 0, 5, time.FixedZone("", 3600)),
		Packages: []Package{
			{Name: "g++-12", Version: "12.2.0-14+deb12u1", Architecture: "amd64", Source: "gcc-12", Kind: "deb"},
			{Name: "tzdata", Version: "1:2024a-0", Architecture: "all", Kind: "deb"}, {Name: "odd_one", Version: "1"}},
	}
	b, err := c.SPDX()
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	requireFields(t, "", doc)
	var d spdxDocument
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	ids, spelling := map[string]bool{d.ID: true}, regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	for _, p := range d.Packages {
		if ids[p.ID] || !spelling.MatchString(p.ID) || p.Analyzed {
			t.Errorf("package %+v", p)
		}
		ids[p.ID] = true
	}
	for _, r := range d.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%+v relates what is not there", r)
		}
	}
	if d.Creation.Created != "2026-11-21T11:00:00Z" || len(d.Relationships) != 4 || len(d.Packages) != 4 {
		t.Errorf("%+v", d)
	}
	for i, want := range []string{"", "pkg:deb/debian/g%2B%2B-12@12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12",
		"pkg:deb/debian/tzdata@1:2024a-0?arch=all&distro=debian-12", ""} {
		got := ""
		if refs := d.Packages[i].References; len(refs) > 0 {
			got = refs[0].Locator
		}
		if got != want {
			t.Errorf("package %d: %s, want %s", i, got, want)
		}
	}
	if again, err := c.SPDX(); err != nil || string(again) != string(b) {
		t.Error("the same contents give other bytes")
	}
}
