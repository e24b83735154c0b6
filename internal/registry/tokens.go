package registry

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"pando/internal/fleet"
)

// Hash is the SHA-256 of a secret of 256 random bits. It identifies the secret but does not reveal it. The zero Hash
// stands for no secret.
type Hash [32]byte

// HashSecret returns the digest under which a secret is stored. The empty secret gives the zero Hash, which matches
// nothing.
func HashSecret(secret string) Hash {
	if secret == "" {
		return Hash{}
	}
	return sha256.Sum256([]byte(secret))
}

// IsZero reports whether h stands for no secret.
func (h Hash) IsZero() bool { return h == Hash{} }

func (h Hash) bytes() []byte {
	if h.IsZero() {
		return nil
	}
	return h[:]
}

// Scan reads a Hash from a column.
func (h *Hash) Scan(v any) error {
	b, ok := v.([]byte)
	switch {
	case v == nil || ok && len(b) == 0:
		*h = Hash{}
	case ok && len(b) == len(h):
		*h = Hash(b)
	default:
		return fmt.Errorf("digest of a secret is %T of the wrong size", v)
	}
	return nil
}

// Token is an operator's credential.
type Token struct {
	Name    string
	Hash    Hash
	Role    fleet.Role
	Groups  []string // groups that the token is limited to; none: all groups
	Created time.Time
	Used    time.Time // last use; zero: never
	Expires time.Time // zero: never
}

const tokenColumns = `SELECT name, hash, role, reach, created, used, expires FROM tokens`

// Tokens returns all operators' tokens by name.
func (t *Tx) Tokens() ([]Token, error) {
	tokens, err := list(t, scanToken, tokenColumns+` ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return tokens, nil
}

// TokenByHash returns the token whose secret has this digest, or ErrNotFound. It may have expired.
func (t *Tx) TokenByHash(h Hash) (Token, error) {
	if h.IsZero() {
		return Token{}, notFound("token", "")
	}
	return one(t.row(tokenColumns+` WHERE hash = ?`, h[:]), scanToken, "token", "with this secret")
}

// CreateToken adds a token, or returns ErrExists.
func (t *Tx) CreateToken(k Token) error {
	if err := fleet.ValidName("token", k.Name); err != nil {
		return err
	}
	_, err := one(t.row(tokenColumns+` WHERE name = ?`, k.Name), scanToken, "token", k.Name)
	if !errors.Is(err, ErrNotFound) {
		return taken(err, "token", k.Name)
	}
	_, err = t.exec(
		`INSERT INTO tokens (name, hash, role, reach, created, used, expires) VALUES (?, ?, ?, ?, ?, ?, ?)`, k.Name,
		k.Hash[:], string(k.Role), strings.Join(k.Groups, " "), stamp(k.Created), stamp(k.Used), stamp(k.Expires),
	)
	if err != nil {
		return fmt.Errorf("create token %s: %w", k.Name, err)
	}
	return nil
}

// TouchToken records that a token was used.
func (t *Tx) TouchToken(name string, used time.Time) error {
	_, err := t.exec(`UPDATE tokens SET used = ? WHERE name = ?`, stamp(used), name)
	if err != nil {
		return fmt.Errorf("note use of token %s: %w", name, err)
	}
	return nil
}

// DeleteToken removes a token, or returns ErrNotFound.
func (t *Tx) DeleteToken(name string) error {
	n, err := t.exec(`DELETE FROM tokens WHERE name = ?`, name)
	if err != nil {
		return fmt.Errorf("delete token %s: %w", name, err)
	}
	if n == 0 {
		return notFound("token", name)
	}
	return nil
}

func scanToken(s scanner) (Token, error) {
	var k Token
	var role, reach string
	var created, used, expires int64
	err := s.Scan(&k.Name, &k.Hash, &role, &reach, &created, &used, &expires)
	k.Role, k.Created, k.Used, k.Expires = fleet.Role(role), unstamp(created), unstamp(used), unstamp(expires)
	if reach != "" {
		k.Groups = strings.Fields(reach)
	}
	return k, err
}
