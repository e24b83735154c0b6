package testkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// slapdConf configures OpenLDAP with one database. Everything except passwords is readable without a login.
const slapdConf = `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile %[1]s/cert.pem
TLSCertificateKeyFile %[1]s/key.pem
database mdb
suffix %[2]q
directory %[1]s/db
access to attrs=userPassword by anonymous auth by * none
access to * by * read
`

// LDAP is an OpenLDAP server with TLS.
type LDAP struct {
	CA []byte // certificate, PEM

	cmd  *exec.Cmd
	done chan struct{}
}

// StartLDAP starts a directory in a network, with LDIF entries below a base. It keeps its files in dir. The caller must
// call Close.
func StartLDAP(ctx context.Context, n *Net, dir, base, ldif string) (*LDAP, error) {
	if _, err := exec.LookPath("slapd"); err != nil {
		return nil, fmt.Errorf("slapd: %w", ErrNoProgram)
	}
	if err := os.MkdirAll(filepath.Join(dir, "db"), 0o700); err != nil {
		return nil, err
	}
	l := &LDAP{done: make(chan struct{})}
	var err error
	if l.CA, err = selfSigned(dir, n.Addr.Addr().AsSlice()); err != nil {
		return nil, err
	}
	conf, entries, log := filepath.Join(
		dir,
		"slapd.conf",
	), filepath.Join(
		dir,
		"entries.ldif",
	), filepath.Join(
		dir,
		"log",
	)
	err = errors.Join(
		os.WriteFile(conf, fmt.Appendf(nil, slapdConf, dir, base), 0o600),
		os.WriteFile(entries, []byte(ldif), 0o600),
	)
	if err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "slapadd", "-f", conf, "-l", entries).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("fill the directory: %w\n%s", err, out)
	}
	address := net.JoinHostPort(n.Addr.Addr().String(), "636")
	l.cmd = n.Command(context.Background(), "slapd", "-f", conf, "-h", "ldaps://"+address, "-d", "0")
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	l.cmd.Stdout, l.cmd.Stderr = out, out
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start slapd: %w", err)
	}
	go func() {
		_ = l.cmd.Wait() // it was killed, or its log has the reason
		close(l.done)
	}()
	return l, l.listens(ctx, n, address, log)
}

func (l *LDAP) listens(ctx context.Context, n *Net, address, log string) error {
	for {
		err := n.Do(func() error {
			c, err := net.DialTimeout("tcp", address, time.Second)
			if err == nil {
				c.Close()
			}
			return err
		})
		if err == nil {
			return nil
		}
		select {
		case <-l.done:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("slapd has ended:\n%s", text)
		case <-ctx.Done():
			return fmt.Errorf("slapd does not listen: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// selfSigned writes a key and a self-signed certificate for an address, and returns the certificate.
func selfSigned(dir string, address net.IP) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	about := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "directory"},
		IPAddresses:  []net.IP{address},
		NotBefore: time.Now().
			Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, &about, &about, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return public, errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), public, 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), private, 0o600),
	)
}

// Close kills the server.
func (l *LDAP) Close() error {
	if err := l.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end slapd: %w", err)
	}
	<-l.done
	return nil
}
