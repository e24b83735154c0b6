package image

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"pando/internal/fleet"
)

// Contents is the content of a software bill of materials.
type Contents struct {
	Name         string       // of the image
	Version      fleet.Digest // of the image version
	Architecture string
	System       string // ID of os-release, "debian"; "": unknown
	Release      string // its VERSION_ID
	Builder      string // version of Pando
	Built        time.Time
	Packages     []Package
}

// The parts of SPDX 2.3 (ISO/IEC 5962) that are written. Unknown values are NOASSERTION, as the standard requires.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Describes     []string           `json:"documentDescribes"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID         string         `json:"SPDXID"`
		Name       string         `json:"name"`
		Version    string         `json:"versionInfo"`
		Download   string         `json:"downloadLocation"`
		Analyzed   bool           `json:"filesAnalyzed"`
		Concluded  string         `json:"licenseConcluded"`
		Declared   string         `json:"licenseDeclared"`
		Copyright  string         `json:"copyrightText"`
		Purpose    string         `json:"primaryPackagePurpose,omitempty"`
		SourceInfo string         `json:"sourceInfo,omitempty"`
		Checksums  []spdxChecksum `json:"checksums,omitempty"`
		References []spdxRef      `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const unknown = "NOASSERTION"

// SPDX returns the bill of materials as SPDX 2.3 in JSON. The same contents give the same bytes.
func (c Contents) SPDX() ([]byte, error) {
	hex := strings.TrimPrefix(string(c.Version), "sha256:")
	root := spdxPackage{
		ID:        "SPDXRef-Image",
		Name:      c.Name,
		Version:   string(c.Version),
		Download:  unknown,
		Concluded: unknown,
		Declared:  unknown,
		Copyright: unknown,
		Purpose:   "OPERATING-SYSTEM",
		Checksums: []spdxChecksum{{"SHA256", hex}},
	}
	d := spdxDocument{
		Version:   "SPDX-2.3",
		License:   "CC0-1.0",
		ID:        "SPDXRef-DOCUMENT",
		Name:      c.Name + "@" + string(c.Version),
		Namespace: "https://spdx.org/spdxdocs/pando-" + c.Name + "-" + hex,
		Describes: []string{root.ID},
		Packages:  []spdxPackage{root},
		Creation: spdxCreation{
			c.Built.UTC().Format("2006-01-02T15:04:05Z"),
			[]string{"Tool: pando-" + orUnknown(c.Builder)},
		},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root.ID}},
	}
	for i, p := range c.Packages {
		s := spdxPackage{
			ID:        fmt.Sprintf("SPDXRef-Package-%d-%s", i+1, spdxName(p.Name)),
			Name:      p.Name,
			Version:   p.Version,
			Download:  unknown,
			Concluded: unknown,
			Declared:  unknown,
			Copyright: unknown,
		}
		if p.Source != "" {
			s.SourceInfo = "built from the source package " + p.Source
		}
		if locator := c.locator(p); locator != "" {
			s.References = []spdxRef{{"PACKAGE-MANAGER", "purl", locator}}
		}
		d.Packages = append(d.Packages, s)
		d.Relationships = append(d.Relationships, spdxRelationship{root.ID, "CONTAINS", s.ID})
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode bill of materials: %w", err)
	}
	return append(b, '\n'), nil
}

// locator returns the package URL of a package, or "" if its kind or the system is not known.
func (c Contents) locator(p Package) string {
	if p.Kind == "" || c.System == "" {
		return ""
	}
	q := "?arch=" + url.QueryEscape(p.Architecture)
	if c.Release != "" {
		q += "&distro=" + url.QueryEscape(c.System+"-"+c.Release)
	}
	escape := func(s string) string { return strings.ReplaceAll(url.PathEscape(s), "+", "%2B") }
	return "pkg:" + p.Kind + "/" + escape(c.System) + "/" + escape(p.Name) + "@" + escape(p.Version) + q
}

// spdxName keeps the characters that are valid in an SPDX identifier.
func spdxName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return spdxName(s)
}
