package identity

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Parameters of argon2id (RFC 9106): the least that OWASP's "Password Storage Cheat Sheet" recommends for high memory
// use. One check takes 46 MiB and some tens of milliseconds.
const (
	passwordMemory = 46 << 10 // KiB
	passwordPasses = 1
	passwordLanes  = 1
	saltBytes      = 16
	hashBytes      = 32
)

// Lengths of a password, in bytes. NIST SP 800-63B requires at least eight characters, and advises against rules about
// which characters.
const (
	passwordLeast = 8
	passwordMost  = 1024
)

// HashPassword returns a salted argon2id hash of a password, in the format of the Password Hashing Competition.
func HashPassword(password string) (string, error) {
	if len(password) < passwordLeast || len(password) > passwordMost {
		return "", fmt.Errorf("a password has %d to %d bytes", passwordLeast, passwordMost)
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	sum := argon2.IDKey([]byte(password), salt, passwordPasses, passwordMemory, passwordLanes, hashBytes)
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf(
		"$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version,
		passwordMemory,
		passwordPasses,
		passwordLanes,
		text(salt),
		text(sum),
	), nil
}

// CheckPassword reports whether a password matches a hash. It takes as long for a hash that is not valid, so that a
// caller cannot learn whether a user exists.
func CheckPassword(hash, password string) bool {
	salt, want, err := parseHash(hash)
	if err != nil {
		salt, want = make([]byte, saltBytes), make([]byte, hashBytes)
	}
	sum := argon2.IDKey([]byte(password), salt, passwordPasses, passwordMemory, passwordLanes, hashBytes)
	return subtle.ConstantTimeCompare(sum, want) == 1 && err == nil && len(password) <= passwordMost
}

// parseHash parses a hash that HashPassword made.
func parseHash(hash string) (salt, sum []byte, err error) {
	head := fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$", argon2.Version, passwordMemory, passwordPasses, passwordLanes)
	rest, ok := strings.CutPrefix(hash, head)
	first, second, two := strings.Cut(rest, "$")
	if !ok || !two {
		return nil, nil, errors.New("no hash of a password that this version makes")
	}
	if salt, err = base64.RawStdEncoding.DecodeString(first); err != nil {
		return nil, nil, err
	}
	if sum, err = base64.RawStdEncoding.DecodeString(second); err != nil {
		return nil, nil, err
	}
	if len(salt) != saltBytes || len(sum) != hashBytes {
		return nil, nil, errors.New("hash of a password: salt or sum has another length")
	}
	return salt, sum, nil
}
