package identity

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"aead.dev/minisign"

	"pando/internal/image"
)

// TrustFile is the file of a keys directory that lists which keys may sign versions, now or earlier. Without the file
// only the site key may.
const TrustFile = "trust.json"

// SigningKey is a key that signs versions, or did.
type SigningKey struct {
	Name   string `json:"name"`
	Public string `json:"public"` // minisign public key, base64
	// file of its secret half in the keys directory; "": the secret half is not on this server
	Secret  string    `json:"secret,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"` // zero: the key is trusted
}

// trustText is the content of TrustFile.
type trustText struct {
	Format int          `json:"format"` // 1
	Keys   []SigningKey `json:"keys"`
}

// Ring holds the keys that may sign versions. The first one that is not revoked is the one that signs; the others are
// trusted too. A Ring may be used by several goroutines. Each change is on disk before it takes effect.
type Ring struct {
	dir string

	mu      sync.RWMutex
	keys    []SigningKey
	secrets map[string]minisign.PrivateKey // by public key
}

// Errors of Ring.
var (
	ErrNoKey    = errors.New("no such key")
	ErrKeyTaken = errors.New("a key with that name, or that public key, exists already")
	ErrLastKey  = errors.New("it is the only key that is trusted")
	ErrRevoked  = errors.New("the key is revoked")
	ErrManyKeys = errors.New("there are as many keys as a version can have signatures")
)

// openRing reads the signing keys. Without TrustFile there is only the site key, which must exist.
func openRing(dir string) (*Ring, error) {
	r := &Ring{dir: dir, secrets: map[string]minisign.PrivateKey{}}
	path := filepath.Join(dir, TrustFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.keys = []SigningKey{{Name: "site", Secret: SiteKeyFile}}
	case err == nil:
		var t trustText
		if err = json.Unmarshal(b, &t); err == nil && t.Format != 1 {
			err = fmt.Errorf("format %d, this Pando knows 1; upgrade it", t.Format)
		}
		r.keys = t.Keys
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &KeyError{Path: path, hint: restoreHint, Err: err}
	}
	for i, k := range r.keys {
		if k.Secret == "" || !k.Revoked.IsZero() {
			continue
		}
		if err := r.readSecret(&r.keys[i]); err != nil {
			return nil, err
		}
	}
	if len(r.trusted()) == 0 {
		return nil, &KeyError{Path: path, hint: restoreHint, Err: errors.New("it trusts no key")}
	}
	return r, nil
}

func (r *Ring) readSecret(k *SigningKey) error {
	path := filepath.Join(r.dir, filepath.Base(k.Secret))
	b, err := readPrivate(path)
	var refused *KeyError
	if errors.As(err, &refused) {
		return refused
	}
	var secret minisign.PrivateKey
	if err == nil {
		if err = secret.UnmarshalText(b); err != nil {
			err = fmt.Errorf("not a minisign secret key without a password: %w", err)
		}
	}
	if err != nil {
		return &KeyError{Path: path, hint: restoreHint, Err: err}
	}
	public := secret.Public().(minisign.PublicKey).String()
	if k.Public != "" && k.Public != public {
		return &KeyError{Path: path, hint: restoreHint, Err: fmt.Errorf("it is not the secret half of key %s", k.Name)}
	}
	k.Public = public
	r.secrets[public] = secret
	return nil
}

// Keys returns all keys: the signing one first, revoked ones last.
func (r *Ring) Keys() []SigningKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := r.trusted()
	for _, k := range r.keys {
		if !k.Revoked.IsZero() {
			out = append(out, k)
		}
	}
	return out
}

func (r *Ring) trusted() []SigningKey {
	return slices.DeleteFunc(slices.Clone(r.keys), func(k SigningKey) bool { return !k.Revoked.IsZero() })
}

// Trust returns the keys whose signatures count now, and the revoked ones.
func (r *Ring) Trust() image.Trust {
	var t image.Trust
	for _, k := range r.Keys() {
		if k.Revoked.IsZero() {
			t.Keys = append(t.Keys, k.Public)
		} else {
			t.Revoked = append(t.Revoked, k.Public)
		}
	}
	return t
}

// All returns the public halves of all keys, also of revoked ones.
func (r *Ring) All() []string {
	t := r.Trust()
	return append(t.Keys, t.Revoked...)
}

// Signers returns the keys that sign new things: all trusted keys whose secret half is here, the signing one first.
// With all signatures, nodes that trust only some of the keys accept the result.
func (r *Ring) Signers() []minisign.PrivateKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []minisign.PrivateKey
	for _, k := range r.trusted() {
		if s, ok := r.secrets[k.Public]; ok {
			out = append(out, s)
		}
	}
	return out
}

// Here reports whether the server has the secret half of a key.
func (r *Ring) Here(k SigningKey) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.secrets[k.Public]
	return ok
}

// Find returns the key with a name or a public key.
func (r *Ring) Find(name string) (SigningKey, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if i := r.index(name); i >= 0 {
		return r.keys[i], nil
	}
	return SigningKey{}, fmt.Errorf("key %s: %w", name, ErrNoKey)
}

func (r *Ring) index(name string) int {
	return slices.IndexFunc(r.keys, func(k SigningKey) bool { return k.Name == name || k.Public == name })
}

// Add makes a key and trusts it, after the others. With a public key it adds one whose secret half is not on this
// server.
func (r *Ring) Add(name, public string, now time.Time) (SigningKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := SigningKey{Name: name, Public: public, Created: now.UTC().Truncate(time.Second)}
	if r.index(name) >= 0 || public != "" && r.index(public) >= 0 {
		return k, fmt.Errorf("key %s: %w", name, ErrKeyTaken)
	}
	if len(r.trusted()) >= image.MaxSignatures {
		return k, fmt.Errorf("key %s: %w; revoke one", name, ErrManyKeys)
	}
	var secret minisign.PrivateKey
	if public == "" {
		var err error
		if k, secret, err = r.create(k); err != nil {
			return k, fmt.Errorf("key %s: %w", name, err)
		}
	}
	if err := r.save(append(slices.Clone(r.keys), k)); err != nil {
		return k, err
	}
	if public == "" {
		r.secrets[k.Public] = secret
	}
	return k, nil
}

// create makes a key pair and its file.
func (r *Ring) create(k SigningKey) (SigningKey, minisign.PrivateKey, error) {
	public, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		return k, secret, err
	}
	k.Public, k.Secret = public.String(), "sign-"+k.Name+".key"
	text, err := secret.MarshalText()
	if err != nil {
		return k, secret, err
	}
	readable, err := public.MarshalText()
	if err != nil {
		return k, secret, err
	}
	return k, secret, errors.Join(
		writeFile(filepath.Join(r.dir, "sign-"+k.Name+".pub"), append(readable, '\n'), 0o644),
		writeFile(filepath.Join(r.dir, k.Secret), append(text, '\n'), 0o600))
}

// unrevoked returns the index of a trusted key. The caller holds mu.
func (r *Ring) unrevoked(name string) (int, error) {
	i := r.index(name)
	switch {
	case i < 0:
		return i, fmt.Errorf("key %s: %w", name, ErrNoKey)
	case !r.keys[i].Revoked.IsZero():
		return i, fmt.Errorf("key %s: %w", name, ErrRevoked)
	}
	return i, nil
}

// Use makes a trusted key the one that signs.
func (r *Ring) Use(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.unrevoked(name)
	if err != nil {
		return err
	}
	k := r.keys[i]
	return r.save(append([]SigningKey{k}, slices.Delete(slices.Clone(r.keys), i, i+1)...))
}

// Revoke ends the trust in a key for ever: it also removes the secret half.
func (r *Ring) Revoke(name string, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.unrevoked(name)
	switch {
	case err != nil:
		return err
	case len(r.trusted()) == 1:
		return fmt.Errorf("key %s: %w", name, ErrLastKey)
	}
	keys := slices.Clone(r.keys)
	secret := keys[i].Secret
	keys[i].Revoked, keys[i].Secret = now.UTC().Truncate(time.Second), ""
	if err := r.save(keys); err != nil {
		return err
	}
	delete(r.secrets, keys[i].Public)
	if secret == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(r.dir, filepath.Base(secret))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("key %s is revoked; its secret half is still there: %w", name, err)
	}
	return nil
}

// save writes the list to disk and then uses it.
func (r *Ring) save(keys []SigningKey) error {
	b, err := json.MarshalIndent(trustText{Format: 1, Keys: keys}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode keys: %w", err)
	}
	path := filepath.Join(r.dir, TrustFile)
	if err := writeFile(path, append(b, '\n'), 0o644); err != nil {
		return &KeyError{Path: path, Err: err, hint: "check that the disk is not full and not read-only"}
	}
	r.keys = keys
	return nil
}

// SignsPacks reports whether this server has the key that must sign the boot packs of a version.
func (r *Ring) SignsPacks(m image.Manifest) bool {
	if len(r.Signers()) == 0 {
		return false
	}
	if m.PackKey == "" {
		return true
	}
	k, err := r.Find(m.PackKey)
	return err == nil && r.Here(k)
}
