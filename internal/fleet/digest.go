package fleet

import (
	"fmt"
	"strings"
)

// Digest names an image version: "sha256:" and 64 lower-case hex digits, the digest of its manifest.
type Digest string

// ParseDigest checks the form of a digest.
func ParseDigest(s string) (Digest, error) {
	h, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(h) != 64 || strings.Trim(h, "0123456789abcdef") != "" {
		return "", fmt.Errorf("version digest %q is not sha256: and 64 lower-case hex digits", s)
	}
	return Digest(s), nil
}

// leastDigits is how many digits of a digest a person has to give.
const leastDigits = 6

// parseShortDigest reads a digest, or the digits that it begins with.
func parseShortDigest(s string) (Digest, error) {
	h := strings.TrimPrefix(s, "sha256:")
	if len(h) < leastDigits || len(h) > 64 || strings.Trim(h, "0123456789abcdef") != "" {
		return "", fmt.Errorf("version digest %q is not sha256: and 64 lower-case hex digits, nor the first %d "+
			"or more of them", s, leastDigits)
	}
	return Digest("sha256:" + h), nil
}

// Begins reports whether d equals the other digest, or is a prefix of it.
func (d Digest) Begins(other Digest) bool { return strings.HasPrefix(string(other), string(d)) }

// Short is the first twelve hex digits, for tables.
func (d Digest) Short() string {
	h := strings.TrimPrefix(string(d), "sha256:")
	return h[:min(12, len(h))]
}
