package identity

import (
	"crypto/tls"
	"errors"
	"os"

	"pando/internal/secretfile"
)

// readPrivate reads a file that only its owner may read, who is root or the user that runs this program. Whoever else
// could read it may have the key, and whoever could write it may have put another one there.
func readPrivate(path string) ([]byte, error) { return readSecret(path, secretfile.Others) }

// readSecret reads a file whose mode has none of the bits of others.
func readSecret(path string, others os.FileMode) ([]byte, error) {
	b, err := secretfile.Read(path, others)
	return b, keyError(err)
}

// keyError makes a refusal of a file one of its key.
func keyError(err error) error {
	var refused *secretfile.Error
	if errors.As(err, &refused) {
		return &KeyError{Path: refused.Path, Err: refused.Err, hint: refused.Hint()}
	}
	return err
}

// keyPair reads a certificate and its key. Of a key that the site gives, its group may read it, as ssl-cert does in
// Debian.
func keyPair(certFile, keyFile string, others os.FileMode) (c tls.Certificate, err error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return c, err
	}
	key, err := readSecret(keyFile, others)
	if err != nil {
		return c, err
	}
	return tls.X509KeyPair(cert, key)
}

// privateDirectory refuses a keys directory in which others may put files.
func privateDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return &KeyError{Path: dir, Err: err}
	}
	return keyError(secretfile.Check(dir, info, 0o022)) // its files have modes of their own
}
