package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"pando/internal/fleet"
)

// sumsSuffix is the file with the digests of a manifest's sidecars. Manifests and objects have their digests as
// names. Damage to a sidecar would not be noticed otherwise: a provenance may be any text, and a signature is only
// partly significant.
const sumsSuffix = ".sums"

// sums maps a sidecar's suffix to the SHA-256 digests (hex) that it may have: that of the present content and, in
// case the writer dies in between, that of the next content.
type sums map[string][]string

var errSums = errors.New("the sums of its sidecars were changed")

// sumsOf reads the sums of a version. A version by an older release has none, which is no error.
func (d *Dir) sumsOf(v fleet.Digest) (sums, error) {
	b, err := d.readFile(d.sidecar(v, sumsSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return sums{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read sums of %s: %w", v, bare(err))
	}
	return decodeSums(b)
}

// decodeSums decodes lines in the format of sha256sum. The last line is the digest of the lines before it.
func decodeSums(b []byte) (sums, error) {
	text, last, ok := cutLast(string(b))
	if !ok || last != sumLine([]byte(text), sumsSuffix) {
		return nil, errSums
	}
	s := sums{}
	for line := range strings.Lines(text) {
		sum, suffix, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok {
			return nil, errSums
		}
		s[suffix] = append(s[suffix], sum)
	}
	return s, nil
}

// cutLast splits off the last line.
func cutLast(text string) (before, last string, ok bool) {
	if !strings.HasSuffix(text, "\n") {
		return "", "", false
	}
	at := strings.LastIndexByte(text[:len(text)-1], '\n') + 1
	return text[:at], text[at:], true
}

func (s sums) encode() []byte {
	var out strings.Builder
	for _, suffix := range sidecars {
		for _, sum := range s[suffix] {
			fmt.Fprintf(&out, "%s  %s\n", sum, suffix)
		}
	}
	return []byte(out.String() + sumLine([]byte(out.String()), sumsSuffix))
}

func sumLine(b []byte, suffix string) string { return hexSum(b) + "  " + suffix + "\n" }

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// sidecars are the suffixes of the sidecars that have sums.
var sidecars = []string{signatureSuffix, provenanceSuffix, packsSuffix}

// wrong reports whether a sidecar has none of its digests. Without a digest it returns false.
func (s sums) wrong(suffix string, data []byte) bool {
	return len(s[suffix]) > 0 && !slices.Contains(s[suffix], hexSum(data))
}

// putSidecar replaces a sidecar. It first adds the new digest to the sums. The lock must be held.
func (d *Dir) putSidecar(v fleet.Digest, suffix string, data []byte) error {
	s, err := d.sumsOf(v)
	if errors.Is(err, errSums) {
		s, err = sums{}, nil // the present sidecars count as correct; Check has reported the damage
	}
	if err != nil {
		return err
	}
	if was, now := s[suffix], hexSum(data); !slices.Contains(was, now) {
		old, err := d.readFile(d.sidecar(v, suffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read what is replaced beside %s: %w", v, bare(err))
		}
		s[suffix] = []string{now}
		if err == nil && (len(was) == 0 || slices.Contains(was, hexSum(old))) {
			s[suffix] = []string{hexSum(old), now}
		}
		if err := d.putFile(d.sidecar(v, sumsSuffix), s.encode()); err != nil {
			return err
		}
	}
	return d.putFile(d.sidecar(v, suffix), data)
}
