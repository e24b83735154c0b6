package fleet

import (
	"fmt"
	"strings"
)

// Ref names an image version as people write it: "name" (its tag "latest"), "name:tag", or "name@sha256:...". The zero
// Ref names none.
type Ref string

// LatestTag is the tag that a build moves and that a bare name means.
const LatestTag = "latest"

var word = Spelling{Inner: "._-", Max: 64}

// ValidName checks the name of an image, tag, group or node: lower case letters, digits, dots, dashes and
// underscores, at most 64, a letter or digit at both ends. The kind is for the error.
func ValidName(kind, s string) error {
	if !word.Allows(s) {
		return fmt.Errorf("%s name %q: use 1 to 64 of a-z 0-9 . _ - with a letter or digit at both ends", kind, s)
	}
	return nil
}

// MarkName turns the words of a mark into its name: "firefox ready" is firefox-ready. ValidName checks the result.
func MarkName(words string) string { return strings.Join(strings.Fields(words), "-") }

// Split returns the image name, and either a tag or a digest. The digest may be a prefix, as people type it; the
// registry resolves prefixes.
func (r Ref) Split() (name, tag string, digest Digest, err error) {
	name, d, hasDigest := strings.Cut(string(r), "@")
	if hasDigest {
		if digest, err = parseShortDigest(d); err != nil {
			if ValidName("tag", d) == nil {
				err = fmt.Errorf("%w; a tag is written %s:%s", err, name, d)
			}
			return "", "", "", fmt.Errorf("image %q: %w", r, err)
		}
		return name, "", digest, ValidName("image", name)
	}
	name, tag, hasTag := strings.Cut(name, ":")
	if !hasTag {
		tag = LatestTag
	}
	if err := ValidName("image", name); err != nil {
		return "", "", "", err
	}
	return name, tag, "", ValidName("tag", tag)
}

// Whole reports whether the reference needs no completion: it has a tag, or all digits of a digest.
func (r Ref) Whole() bool {
	_, digest, ok := strings.Cut(string(r), "@")
	_, err := ParseDigest(digest)
	return !ok || err == nil
}

// TagList returns the tags of an image as text, for the error about a tag that does not exist.
func TagList(tags []string) string {
	switch len(tags) {
	case 0:
		return "no tags"
	case 1:
		return "the tag " + tags[0]
	}
	return "the tags " + strings.Join(tags, ", ")
}

// IsTag reports whether the reference names a tag, which moves, and not one version.
func (r Ref) IsTag() bool { return r != "" && !strings.Contains(string(r), "@") }

// WithTag returns the reference with the tag that a bare name means: lab becomes lab:latest.
func (r Ref) WithTag() Ref {
	if r.IsTag() && !strings.Contains(string(r), ":") {
		return r + ":" + LatestTag
	}
	return r
}

// At returns a reference to one version of the image that r names.
func (r Ref) At(d Digest) Ref {
	name, _, _ := strings.Cut(string(r), "@")
	name, _, _ = strings.Cut(name, ":")
	return Ref(name + "@" + string(d))
}

// Short returns the reference for people: lab@1f0b7a3c9d2e.
func (r Ref) Short() string {
	name, digest, ok := strings.Cut(string(r), "@")
	if !ok {
		return name
	}
	return name + "@" + Digest(digest).Short()
}

// Running returns the version that the reference resolved to, for people: lab@1f0b7a3c9d2e, or lab:stable 1f0b7a3c9d2e.
func (r Ref) Running(d Digest) string {
	if r.IsTag() {
		return string(r) + " " + d.Short()
	}
	return r.Short()
}

// RefText returns what a group or node should boot, for people.
func RefText(r Ref, follow bool) string {
	if follow {
		return "follows " + string(r)
	}
	return r.Short()
}

// validWanted checks what a group or node should boot.
func validWanted(r Ref, follow bool) error {
	if follow && !r.IsTag() {
		return fmt.Errorf("image %q cannot be followed: name a tag, such as lab:stable", r)
	}
	return validRef(r)
}

// Tag is a movable name of a version.
type Tag struct {
	Image   string `json:"image"`
	Tag     string `json:"tag"`
	Version Digest `json:"version"`
}
