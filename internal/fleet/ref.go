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

// Split returns the image name, and either a tag or a digest.
func (r Ref) Split() (name, tag string, digest Digest, err error) {
	name, d, hasDigest := strings.Cut(string(r), "@")
	if hasDigest {
		if digest, err = ParseDigest(d); err != nil {
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

// Tag is a movable name of a version.
type Tag struct {
	Image   string `json:"image"`
	Tag     string `json:"tag"`
	Version Digest `json:"version"`
}
