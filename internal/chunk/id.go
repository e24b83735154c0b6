package chunk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Algorithm is the digest algorithm of an ID. Its value is the algorithm byte of the formats.
type Algorithm byte

// SHA256 is the only algorithm so far; the byte leaves room for others.
const SHA256 Algorithm = 1

// ID names an object: the digest of its stored bytes. The zero ID names nothing.
type ID struct {
	Algorithm Algorithm
	Sum       [32]byte
}

// Sum returns the ID of an object's stored bytes.
func Sum(stored []byte) ID { return ID{SHA256, sha256.Sum256(stored)} }

// ParseID parses "sha256:<64 hex>" or the bare 64 hex digits, which are an object's file name.
func ParseID(s string) (ID, error) {
	id := ID{Algorithm: SHA256}
	h := strings.TrimPrefix(s, "sha256:")
	if len(h) != 64 || strings.ToLower(h) != h {
		return ID{}, fmt.Errorf("object id %q is not sha256: and 64 lower-case hex digits", s)
	}
	if _, err := hex.Decode(id.Sum[:], []byte(h)); err != nil {
		return ID{}, fmt.Errorf("object id %q: %w", s, err)
	}
	return id, nil
}

// String returns "sha256:<hex>".
func (id ID) String() string { return "sha256:" + id.Name() }

// Name returns the object's file name, which is also the last element of its URL: 64 lower-case hex digits.
func (id ID) Name() string { return hex.EncodeToString(id.Sum[:]) }

// ShortID is the first 64 bits of an ID. In a request it identifies one of a few thousand objects. The requester
// checks the reply against the whole ID.
type ShortID [8]byte

// Short returns the first 64 bits of an ID.
func (id ID) Short() ShortID { return ShortID(id.Sum[:8]) }

// ParseShortID parses 16 lower-case hex digits, or the beginning of a whole ID.
func ParseShortID(s string) (ShortID, error) {
	if len(s) != hex.EncodedLen(len(ShortID{})) {
		id, err := ParseID(s)
		return id.Short(), err
	}
	id, err := ParseID(s + strings.Repeat("0", 64-len(s)))
	if err != nil {
		return ShortID{}, fmt.Errorf("the beginning of an object id, %q, is not 16 lower-case hex digits", s)
	}
	return id.Short(), nil
}

// String returns 16 lower-case hex digits.
func (b ShortID) String() string { return hex.EncodeToString(b[:]) }

// MarshalText returns String.
func (b ShortID) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText accepts what ParseShortID accepts.
func (b *ShortID) UnmarshalText(text []byte) (err error) {
	*b, err = ParseShortID(string(text))
	return err
}

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Verify returns an error unless stored hashes to id. It must always be called before decompression.
func (id ID) Verify(stored []byte) error {
	if id.Algorithm != SHA256 {
		return fmt.Errorf("verify object: unknown digest algorithm %d", id.Algorithm)
	}
	if got := Sum(stored); got != id {
		return &WrongBytesError{Want: id, Got: got, Size: len(stored)}
	}
	return nil
}

// WrongBytesError means that a source sent bytes that are not the requested object.
type WrongBytesError struct {
	Want, Got ID
	Size      int
}

func (e *WrongBytesError) Error() string {
	return fmt.Sprintf("object %s: wrong bytes: %d bytes hash to %s", e.Want, e.Size, e.Got)
}

// MarshalText returns the ID as text, "" for the zero ID.
func (id ID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (id *ID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	p, err := ParseID(string(b))
	if err == nil {
		*id = p
	}
	return err
}
