package image

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pando/internal/fleet"
)

// Provenance says how a version came to be. It is kept beside the manifest for people; nothing is decided
// by it.
type Provenance struct {
	Format     int    `json:"format"`           // 1
	Recipe     string `json:"recipe"`           // as given: "debian:bookworm", a file's name; "" from a directory
	RecipeText string `json:"recipe_text"`      // the recipe's bytes
	Source     string `json:"source,omitempty"` // digest of what the build was asked for; "" from a directory
	FromDir    string `json:"from_dir,omitempty"`
	// what the tree was filled from; nil from a recipe or directory
	Origin     *Origin      `json:"origin,omitempty"`
	Parent     fleet.Digest `json:"parent,omitempty"`      // the version that was changed
	Command    []string     `json:"command,omitempty"`     // what changed it: a command and its arguments
	KernelFrom string       `json:"kernel_from,omitempty"` // what gave the tree its kernel; "" it had one
	Builder    string       `json:"builder"`               // version of Pando
	Host       string       `json:"host"`
	Mkfs       string       `json:"mkfs"` // what mkfs.erofs says of its version
	Built      time.Time    `json:"built"`
	Packages   []Package    `json:"packages,omitempty"` // by name
	Warnings   []string     `json:"warnings,omitempty"`
	// parts of a system that the tree had not: "udev", "ssh", LacksUploader
	Lacks []string `json:"lacks,omitempty"`
}

// LacksUploader stands in Provenance.Lacks of a tree with systemd and without the program that sends a node's journal.
const LacksUploader = "journal-upload"

// UploaderPackage brings that program, in Debian, Ubuntu, Fedora and openSUSE.
const UploaderPackage = "systemd-journal-remote"

// NoUploader reports whether nodes of the version have no program that sends their journal. Of builds that did not
// look for it, the packages tell, where they are known.
func (p Provenance) NoUploader() bool {
	has := func(name string) bool {
		return slices.ContainsFunc(p.Packages, func(k Package) bool { return k.Name == name })
	}
	return slices.Contains(p.Lacks, LacksUploader) || has("systemd") && has("dpkg") && !has(UploaderPackage)
}

// Origin says what a tree was filled from.
type Origin struct {
	Kind string `json:"kind"` // "oci", "tar"
	Name string `json:"name"` // as people write it: a reference, a path
	// "sha256:..." of the image's manifest or of the file; "" if there is none
	Digest string   `json:"digest,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what is worth knowing of the tree
}

// Package is one installed package of the image.
type Package struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Architecture string `json:"architecture"`
	Source       string `json:"source,omitempty"` // package that it was built of, where that has another name
	Kind         string `json:"kind,omitempty"`   // "deb", "apk"
}

// Encode returns the bytes of the sidecar.
func (p Provenance) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode provenance: %w", err)
	}
	return append(b, '\n'), nil
}

// DecodeProvenance reads a sidecar. It takes keys it does not know: an older reader still shows the rest.
func DecodeProvenance(b []byte) (Provenance, error) {
	var p Provenance
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("decode provenance: %w", err)
	}
	return p, nil
}
