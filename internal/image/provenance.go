package image

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pando/internal/fleet"
)

// Provenance says how a version was made. It is kept beside the manifest for people. No decision may depend on it.
type Provenance struct {
	Format     int    `json:"format"`           // 1
	Recipe     string `json:"recipe"`           // as given: "debian:bookworm", a file name; "": from a directory
	RecipeText string `json:"recipe_text"`      // the recipe's bytes
	Source     string `json:"source,omitempty"` // digest of the inputs of the build; "": from a directory
	FromDir    string `json:"from_dir,omitempty"`
	// Origin says where a source got the tree from; nil for a recipe or directory.
	Origin     *Origin      `json:"origin,omitempty"`
	Parent     fleet.Digest `json:"parent,omitempty"`      // the version that was changed to make this one
	Command    []string     `json:"command,omitempty"`     // command that changed it, with its arguments
	KernelFrom string       `json:"kernel_from,omitempty"` // where the kernel came from; "": from the tree itself
	Builder    string       `json:"builder"`               // version of Pando
	Host       string       `json:"host"`
	Mkfs       string       `json:"mkfs"` // version of mkfs.erofs, as it prints it
	Built      time.Time    `json:"built"`
	Packages   []Package    `json:"packages,omitempty"` // by name
	Warnings   []string     `json:"warnings,omitempty"`
	// Lacks lists parts of a system that the tree does not have: "udev", "ssh", LacksUploader.
	Lacks []string `json:"lacks,omitempty"`
}

// LacksUploader is in Provenance.Lacks if the tree has systemd but not the program that sends a node's journal.
const LacksUploader = "journal-upload"

// UploaderPackage is the package with that program in Debian, Ubuntu, Fedora and openSUSE.
const UploaderPackage = "systemd-journal-remote"

// NoUploader reports whether the version lacks the program that sends a node's journal. For versions of older builds,
// which did not look for it, the list of packages decides, if it is known.
func (p Provenance) NoUploader() bool {
	has := func(name string) bool {
		return slices.ContainsFunc(p.Packages, func(k Package) bool { return k.Name == name })
	}
	return slices.Contains(p.Lacks, LacksUploader) || has("systemd") && has("dpkg") && !has(UploaderPackage)
}

// Origin says where a tree came from.
type Origin struct {
	Kind string `json:"kind"` // "oci", "tar"
	Name string `json:"name"` // as people write it: a reference, a path
	// "sha256:..." of the image's manifest or of the file; "" if there is none
	Digest string   `json:"digest,omitempty"`
	Notes  []string `json:"notes,omitempty"` // remarks about the tree for people
}

// Package is one installed package of the image.
type Package struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	Architecture string `json:"architecture"`
	Source       string `json:"source,omitempty"` // source package, if it has another name
	Kind         string `json:"kind,omitempty"`   // "deb", "apk"
}

// Encode returns the provenance as JSON.
func (p Provenance) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode provenance: %w", err)
	}
	return append(b, '\n'), nil
}

// DecodeProvenance decodes a provenance. It ignores unknown keys, so that an older program shows the rest.
func DecodeProvenance(b []byte) (Provenance, error) {
	var p Provenance
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("decode provenance: %w", err)
	}
	return p, nil
}
