package identity

import (
	"crypto/tls"
	"errors"
	"os"

	"pando/internal/secretfile"
)

// readPrivate reads a file that belongs to root or the user of this process and that only its owner may read. Anyone
// else who could read it may have the key, and anyone who could write it may have replaced it.
func readPrivate(path string) ([]byte, error) { return readSecret(path, secretfile.Others) }

// readSecret reads a file whose mode has none of the bits in others.
func readSecret(path string, others os.FileMode) ([]byte, error) {
	b, err := secretfile.Read(path, others)
	return b, keyError(err)
}

// keyError converts the refusal of a file to a KeyError.
func keyError(err error) error {
	var refused *secretfile.Error
	if errors.As(err, &refused) {
		return &KeyError{Path: refused.Path, Err: refused.Err, hint: refused.Hint()}
	}
	return err
}

// keyPair reads a certificate and its key. others are the forbidden mode bits of the key file: a key of the site's own
// may be readable by its group, like those of ssl-cert in Debian.
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

// privateDirectory returns an error if others may put files into a keys directory.
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
