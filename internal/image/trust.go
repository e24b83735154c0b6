package image

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"aead.dev/minisign"
)

// Trust is whose signatures count.
type Trust struct {
	Keys    []string // minisign public keys, base64
	Revoked []string // keys that do not count any more, also where Keys has them
}

// Accepted are the keys that count.
func (t Trust) Accepted() []string {
	return slices.DeleteFunc(slices.Clone(t.Keys), func(k string) bool { return slices.Contains(t.Revoked, k) })
}

// verify checks that an accepted key signed data with comment as the trusted comment. Signatures of other keys beside
// that one do no harm.
func (t Trust) verify(data, signature []byte, comment string) error {
	if len(signature) > MaxSignature {
		return fmt.Errorf("%w: %d bytes are too many", ErrWrongSignature, len(signature))
	}
	if len(strings.TrimSpace(string(signature))) == 0 {
		return ErrUnsigned
	}
	signatures, err := SplitSignatures(signature)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWrongSignature, err)
	}
	accepted, err := publicKeys(t.Accepted())
	if err != nil {
		return err
	}
	var wrong error
	for _, text := range signatures {
		counts, err := check(data, text, comment, accepted)
		if counts {
			return nil
		}
		wrong = cmp.Or(wrong, err)
	}
	if wrong != nil {
		return wrong
	}
	return t.stranger(data, signatures, accepted)
}

// check reports whether a signature is a good one of a key that counts. A key that is not known is no error yet.
func check(data, text []byte, comment string, accepted []minisign.PublicKey) (bool, error) {
	var s minisign.Signature
	if err := s.UnmarshalText(text); err != nil {
		return false, fmt.Errorf("%w: not a minisign signature: %w", ErrWrongSignature, err)
	}
	if s.TrustedComment != comment {
		return false, fmt.Errorf("%w: it is for %q", ErrWrongSignature, s.TrustedComment)
	}
	i := slices.IndexFunc(accepted, func(k minisign.PublicKey) bool { return k.ID() == s.KeyID })
	switch {
	case i < 0:
		return false, nil
	case minisign.Verify(accepted[i], data, text):
		return true, nil
	}
	return false, fmt.Errorf("%w by key %s", ErrWrongSignature, KeyID(s.KeyID))
}

// stranger says why nobody who signed counts.
func (t Trust) stranger(data []byte, signatures [][]byte, accepted []minisign.PublicKey) error {
	revoked, err := publicKeys(t.Revoked)
	if err != nil {
		return err
	}
	var by, known []string
	for _, text := range signatures {
		for _, k := range revoked {
			if minisign.Verify(k, data, text) {
				return fmt.Errorf("%w: signed by key %s only", ErrRevoked, KeyID(k.ID()))
			}
		}
		var s minisign.Signature
		if s.UnmarshalText(text) == nil {
			by = append(by, KeyID(s.KeyID))
		}
	}
	for _, k := range accepted {
		known = append(known, KeyID(k.ID()))
	}
	return fmt.Errorf("%w: by key %s, trusted are %s", ErrWrongSignature, strings.Join(by, ", "), strings.Join(known, ", "))
}

// KeyID is how a key is named where there is no room for the key: as minisign writes it.
func KeyID(id uint64) string { return fmt.Sprintf("%016X", id) }

func publicKeys(texts []string) ([]minisign.PublicKey, error) {
	out := make([]minisign.PublicKey, len(texts))
	for i, text := range texts {
		if err := out[i].UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("trust key %q: %w", text, err)
		}
	}
	return out, nil
}
