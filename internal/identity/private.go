package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// readPrivate reads a file that belongs to root or the user of this process and that only its owner may read. Anyone
// else who could read it may have the key, and anyone who could write it may have replaced it.
func readPrivate(path string) ([]byte, error) { return readSecret(path, 0o077) }

// readSecret reads a file whose mode has none of the bits in others.
func readSecret(path string, others os.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = private(path, info, others)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
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

// private returns an error if a file or directory of secrets has one of the mode bits others, or another owner than
// root and this user.
func private(path string, info os.FileInfo, others os.FileMode) error {
	if mode := info.Mode().Perm(); mode&others != 0 {
		return &KeyError{
			Path: path,
			Err:  fmt.Errorf("others may read or write it: its mode is %04o", mode),
			hint: fmt.Sprintf(
				"if nobody else was on this machine: chmod %04o %s; else make new keys",
				mode&^others,
				path,
			),
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return &KeyError{
			Path: path,
			Err:  fmt.Errorf("it belongs to user %d, who can change it", st.Uid),
			hint: "if nobody else was on this machine: chown root " + path + "; else make new keys",
		}
	}
	return nil
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
	return private(dir, info, 0o022) // its files have modes of their own
}
