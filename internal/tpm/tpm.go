package tpm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
)

// Device is the TPM behind the kernel's resource manager, which drops our key when the file is closed.
const Device = "/dev/tpmrm0"

// Constants of TPM 2.0 (TCG, TPM 2.0 Library, part 2).
const (
	tpmSessions      = 0x8002
	tpmCreatePrimary = 0x131
	tpmSign          = 0x15d
	tpmOwner         = 0x40000001
	tpmRetry         = 0x922 // TPM_RC_RETRY: not ready yet, like tpmTesting
	tpmTesting       = 0x90a
)

// tpmTemplate describes the key: ECDSA on P-256 with SHA-256, derived in the TPM from its owner's seed, not
// exportable. The same template gives the same key at every boot, until somebody clears the TPM.
const tpmTemplate = "\x00\x23\x00\x0b\x00\x04\x04\x72\x00\x00\x00\x10\x00\x18\x00\x0b\x00\x03\x00\x10\x00\x00\x00\x00"

// tpmAuth is an authorization with the empty password.
const tpmAuth = "\x00\x00\x00\x09\x40\x00\x00\x09\x00\x00\x00\x00\x00"

// Prove signs a digest with the key of the machine's TPM. device is the path of the TPM.
func Prove(device string, digest [32]byte) (*api.TPMProof, error) {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: device, Err: err}
	}
	defer unix.Close(fd)
	return signByTPM(tpmFile(fd), digest)
}

// tpmFile is a TPM's file. Each write is a whole command, each read a whole answer. It does not use Go's poller,
// because kernels differ in their support of non-blocking TPM files.
type tpmFile int

// Write sends a command.
func (f tpmFile) Write(b []byte) (int, error) { return unix.Write(int(f), b) }

// Read waits for the answer.
func (f tpmFile) Read(b []byte) (int, error) { return unix.Read(int(f), b) }

// signByTPM derives the key and signs the digest with it.
func signByTPM(tpm io.ReadWriter, digest [32]byte) (*api.TPMProof, error) {
	made, err := askTPM(
		tpm,
		tpmCreatePrimary,
		tpmOwner,
		"\x00\x04\x00\x00\x00\x00\x00\x18"+tpmTemplate+"\x00\x00\x00\x00\x00\x00",
	)
	if err != nil {
		return nil, fmt.Errorf("make the key of the TPM: %w", err)
	}
	key := made.number()
	made.skip(4 + 2 + 2 + 2 + 4) // sizes, kind of key, hash, attributes
	made.bytes()                 // policy
	made.skip(10)                // scheme and curve
	p := &api.TPMProof{Key: append(made.point(), made.point()...)}
	signed, err := askTPM(
		tpm,
		tpmSign,
		key,
		"\x00\x20"+string(digest[:])+"\x00\x18\x00\x0b\x80\x24\x40\x00\x00\x07\x00\x00",
	)
	if err != nil {
		return nil, fmt.Errorf("sign by the key of the TPM: %w", err)
	}
	signed.skip(4 + 4) // size, scheme
	p.Signature = append(signed.point(), signed.point()...)
	if made.short || signed.short {
		return nil, errors.New("the TPM's answer is too short")
	}
	return p, nil
}

// askTPM sends a command on a handle with the empty password. It retries while the TPM is still testing itself.
func askTPM(tpm io.ReadWriter, command, handle uint32, parameters string) (tpmAnswer, error) {
	b := binary.BigEndian.AppendUint16(nil, tpmSessions)
	b = binary.BigEndian.AppendUint32(b, uint32(10+4+len(tpmAuth)+len(parameters)))
	b = binary.BigEndian.AppendUint32(b, command)
	b = binary.BigEndian.AppendUint32(b, handle)
	b = append(append(b, tpmAuth...), parameters...)
	for try := 0; ; try++ {
		if _, err := tpm.Write(b); err != nil {
			return tpmAnswer{}, err
		}
		answer := make([]byte, 4096)
		n, err := tpm.Read(answer)
		if err != nil {
			return tpmAnswer{}, err
		}
		a := tpmAnswer{rest: answer[:n]}
		a.skip(6)
		code := a.number()
		switch {
		case a.short:
			return a, errors.New("the TPM's answer is too short")
		case code == 0:
			return a, nil
		case code != tpmRetry && code != tpmTesting || try == 20:
			return a, fmt.Errorf("the TPM refuses with code %#x", code)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// tpmAnswer is the unread rest of an answer. short: the answer ended too early.
type tpmAnswer struct {
	rest  []byte
	short bool
}

func (a *tpmAnswer) skip(n int) []byte {
	if n > len(a.rest) {
		a.short, n = true, len(a.rest)
	}
	b := a.rest[:n]
	a.rest = a.rest[n:]
	return b
}

func (a *tpmAnswer) number() uint32 {
	if b := a.skip(4); len(b) == 4 {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (a *tpmAnswer) bytes() []byte {
	if b := a.skip(2); len(b) == 2 {
		return a.skip(int(binary.BigEndian.Uint16(b)))
	}
	return nil
}

// point returns a number of 32 bytes. A TPM may omit leading zeros.
func (a *tpmAnswer) point() []byte {
	b := a.bytes()
	if len(b) > 32 {
		a.short = true
		b = nil
	}
	return append(make([]byte, 32-len(b)), b...)
}
