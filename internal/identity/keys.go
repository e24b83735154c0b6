package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// The files of a keys directory.
const (
	SiteKeyFile    = "site.key"   // minisign secret key without a password
	SitePublicFile = "site.pub"   // minisign public key, as the minisign tool reads it
	ServerKeyFile  = "server.key" // PKCS #8, PEM
	SecretFile     = "secret"     // 32 bytes
)

// Keys are the keys of a site.
type Keys struct {
	Site   minisign.PrivateKey // the key that signed when the keys were opened; zero if its secret half is not here
	Ring   *Ring               // all keys that sign
	Server ed25519.PrivateKey
	Secret [32]byte
}

// KeyError means that the keys directory cannot be used.
type KeyError struct {
	Path string
	hint string
	Err  error
}

func (e *KeyError) Error() string { return fmt.Sprintf("keys %s: %v", e.Path, e.Err) }

// Unwrap returns the underlying error.
func (e *KeyError) Unwrap() error { return e.Err }

// Hint says what the administrator can do, "" if nothing is known.
func (e *KeyError) Hint() string { return e.hint }

const restoreHint = "restore the keys directory from its backup; new keys mean that every node must boot again " +
	"and every image must be signed again"

// SitePublic returns the public half of the key that signs, as nodes get it: base64 without the comment line.
func (k Keys) SitePublic() string { return k.Ring.Keys()[0].Public }

// ServerPublic returns the server's public key.
func (k Keys) ServerPublic() ed25519.PublicKey { return k.Server.Public().(ed25519.PublicKey) }

// registryFile is beside the keys directory if the site has run before.
const registryFile = "registry.db"

// Open reads the keys in dir. If none of them exists, it makes all of them, unless the site has run before: its nodes
// and versions trust the old keys.
func Open(dir string) (Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Keys{}, &KeyError{
			Path: dir,
			Err:  err,
			hint: "check that the data directory exists and belongs to the user that runs pando",
		}
	}
	if err := privateDirectory(dir); err != nil {
		return Keys{}, err
	}
	present, absent, err := look(dir)
	switch {
	case err != nil:
		return Keys{}, &KeyError{Path: dir, Err: err}
	case len(present) == 0 && exists(filepath.Join(filepath.Dir(dir), registryFile)):
		return Keys{}, &KeyError{Path: dir, Err: errors.New("no keys, beside the registry of a site that had some"),
			hint: restoreHint + "; to begin a new site, move " + registryFile + " away too"}
	case len(present) == 0:
		if err := create(dir); err != nil {
			return Keys{}, &KeyError{
				Path: dir,
				Err:  fmt.Errorf("make new keys: %w", err),
				hint: "check that the disk is not full and not read-only",
			}
		}
	case len(absent) > 0:
		return Keys{}, &KeyError{Path: dir, hint: restoreHint,
			Err: fmt.Errorf("%s missing beside %s", strings.Join(absent, " "), strings.Join(present, " "))}
	}
	return read(dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// look reports which of the secret files exist. The public key can be made from the secret one.
func look(dir string) (present, absent []string, err error) {
	files := []string{SiteKeyFile, ServerKeyFile, SecretFile}
	if _, err := os.Lstat(filepath.Join(dir, TrustFile)); err == nil {
		files = files[1:] // TrustFile says which keys sign
		present = append(present, TrustFile)
	}
	for _, f := range files {
		_, err := os.Lstat(filepath.Join(dir, f))
		switch {
		case err == nil:
			present = append(present, f)
		case errors.Is(err, fs.ErrNotExist):
			absent = append(absent, f)
		default:
			return nil, nil, err
		}
	}
	return present, absent, nil
}

func read(dir string) (Keys, error) {
	var k Keys
	for file, decode := range map[string]func(*Keys, []byte) error{
		ServerKeyFile: decodeServer, SecretFile: decodeSecret,
	} {
		path := filepath.Join(dir, file)
		b, err := readPrivate(path)
		var refused *KeyError
		if errors.As(err, &refused) {
			return Keys{}, refused
		}
		if err == nil {
			err = decode(&k, b)
		}
		if err != nil {
			return Keys{}, &KeyError{Path: path, hint: restoreHint, Err: err}
		}
	}
	var err error
	if k.Ring, err = openRing(dir); err != nil {
		return Keys{}, err
	}
	if all := k.Ring.Signers(); len(all) > 0 {
		k.Site = all[0]
	}
	public := filepath.Join(dir, SitePublicFile)
	if _, err := os.Stat(public); errors.Is(err, fs.ErrNotExist) && k.Ring.Keys()[0].Secret == SiteKeyFile {
		if err := writeFile(public, publicText(k), 0o644); err != nil {
			return Keys{}, &KeyError{Path: public, Err: err}
		}
	}
	return k, nil
}

func decodeServer(k *Keys, b []byte) error {
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" {
		return errors.New("not a PEM file with a PRIVATE KEY")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return err
	}
	ed, ok := key.(ed25519.PrivateKey)
	if !ok {
		return fmt.Errorf("it is a %T, not an Ed25519 key", key)
	}
	k.Server = ed
	return nil
}

func decodeSecret(k *Keys, b []byte) error {
	if len(b) != len(k.Secret) {
		return fmt.Errorf("it has %d bytes instead of %d", len(b), len(k.Secret))
	}
	k.Secret = [32]byte(b)
	return nil
}

// create makes all keys.
func create(dir string) error {
	var k Keys
	var err error
	if _, k.Site, err = minisign.GenerateKey(rand.Reader); err != nil {
		return err
	}
	if _, k.Server, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return err
	}
	if _, err := rand.Read(k.Secret[:]); err != nil {
		return err
	}
	return k.save(dir)
}

// save writes the files in an order in which an interrupted first start leaves a file missing, which Open notices.
func (k Keys) save(dir string) error {
	site, err := k.Site.MarshalText()
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.Server)
	if err != nil {
		return err
	}
	server := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return errors.Join(
		writeFile(filepath.Join(dir, SitePublicFile), publicText(k), 0o644),
		writeFile(filepath.Join(dir, SecretFile), k.Secret[:], 0o600),
		writeFile(filepath.Join(dir, ServerKeyFile), server, 0o600),
		writeFile(filepath.Join(dir, SiteKeyFile), append(site, '\n'), 0o600))
}

func publicText(k Keys) []byte {
	text, err := k.Site.Public().(minisign.PublicKey).MarshalText()
	if err != nil { // it cannot fail: layout and fields are fixed
		panic("identity: encode public key: " + err.Error())
	}
	return append(text, '\n')
}
