package tpm

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"io"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
)

// startTPM starts a software TPM, whose seeds are in dir.
func startTPM(t *testing.T, dir string) io.ReadWriter {
	t.Helper()
	if _, err := exec.LookPath("swtpm"); err != nil {
		t.Skip("swtpm is not installed")
	}
	socket := filepath.Join(t.TempDir(), "tpm")
	c := exec.Command(
		"swtpm",
		"socket",
		"--tpm2",
		"--tpmstate",
		"dir="+dir,
		"--server",
		"type=unixio,path="+socket,
		"--flags",
		"not-need-init,startup-clear",
	)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Signal(unix.SIGTERM); err == nil {
			_ = c.Wait() // it was told to end
		}
	})
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func verified(p *api.TPMProof, digest [32]byte) bool {
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, p.Key...))
	return err == nil &&
		ecdsa.Verify(
			public,
			digest[:],
			new(big.Int).SetBytes(p.Signature[:32]),
			new(big.Int).SetBytes(p.Signature[32:]),
		)
}

// A TPM has the same key at every boot. Different TPMs have different keys.
func TestSignByTPM(t *testing.T) {
	dir := t.TempDir()
	digest := sha256.Sum256([]byte("hello"))
	var keys [][]byte
	for _, state := range []string{dir, t.TempDir()} {
		tpm := startTPM(t, state)
		for range 2 {
			p, err := signByTPM(tpm, digest)
			if err != nil {
				t.Fatal(err)
			}
			if !verified(p, digest) || verified(p, sha256.Sum256(nil)) {
				t.Error("the signature is not of this digest")
			}
			keys = append(keys, p.Key)
		}
	}
	if !bytes.Equal(keys[0], keys[1]) || !bytes.Equal(keys[2], keys[3]) || bytes.Equal(keys[0], keys[2]) {
		t.Error("a key is not the TPM's own")
	}
}

func TestNoTPM(t *testing.T) {
	if _, err := Prove(filepath.Join(t.TempDir(), "tpm"), [32]byte{}); err == nil {
		t.Error("a TPM that is not there has proved something")
	}
}

// canned is a TPM with prepared answers.
type canned struct{ answers [][]byte }

func (c *canned) Write(b []byte) (int, error) { return len(b), nil }

func (c *canned) Read(b []byte) (int, error) {
	if len(c.answers) == 0 {
		return 0, errors.New("no more")
	}
	n := copy(b, c.answers[0])
	c.answers = c.answers[1:]
	return n, nil
}

// FuzzTPM: any answer of a TPM leads to a proof of the right form or an error.
func FuzzTPM(f *testing.F) {
	good := append(
		[]byte(
			"\x80\x02\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x23\x00\x0b\x00\x04\x04\x72\x00\x00\x00\x10\x00\x18\x00\x0b\x00\x03\x00\x10",
		),
		append([]byte("\x00\x01\x07\x00\x20"), make([]byte, 32)...)...)
	f.Add(
		good,
		[]byte("\x80\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x18\x00\x0b\x00\x01\x01\x00\x01\x02"),
	)
	f.Add(good, []byte{})
	f.Add([]byte("\x80\x01\x00\x00\x00\x0a\x00\x00\x01\x01"), []byte{})
	f.Fuzz(func(t *testing.T, made, signed []byte) {
		if len(made) >= 10 && (made[8] == 9 || len(signed) >= 10 && signed[8] == 9) {
			return // it would be retried, with a pause
		}
		p, err := signByTPM(&canned{[][]byte{made, signed}}, [32]byte{})
		if err == nil && (len(p.Key) != 64 || len(p.Signature) != 64) {
			t.Errorf("key of %d bytes, signature of %d", len(p.Key), len(p.Signature))
		}
	})
}
