package identity

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
)

// The purposes of derived keys. A purpose must never be reused for another format.
const (
	purposeMachineID = "pando machine-id v1\x00"
	purposeHostKey   = "pando ssh host key v1\x00"
	purposeSession   = "pando dashboard session v1\x00"
	purposeConfig    = "pando config digest v1\x00"
	purposeUpload    = "pando upload key v1\x00"
)

// derive returns HKDF-SHA-256 (RFC 5869) of the secret for one purpose and one node.
func (k Keys) derive(purpose, node string, size int) []byte {
	b, err := hkdf.Key(sha256.New, k.Secret[:], nil, purpose+node, size)
	if err != nil { // it fails only for sizes above 255 digests
		panic("identity: " + err.Error())
	}
	return b
}

// SessionKey returns the key of the MACs of browser sessions. It belongs to the site, not to a node.
func (k Keys) SessionKey() []byte { return k.derive(purposeSession, "", 32) }

// ConfigKey returns the key of the recorded digests of config files.
func (k Keys) ConfigKey() []byte { return k.derive(purposeConfig, "", 32) }

// MachineID returns a node's machine-id(5): 32 hex digits, the same in every boot. It has the form of a random UUID
// (version 4), like those of systemd.
func (k Keys) MachineID(node string) string {
	id := k.derive(purposeMachineID, node, 16)
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return hex.EncodeToString(id)
}

// HostKey returns a node's ssh host key: the private half in OpenSSH's file format, the public half as a line for
// known_hosts and .pub files. Both are the same bytes in every boot.
func (k Keys) HostKey(node string) (private, public []byte) {
	key := ed25519.NewKeyFromSeed(k.derive(purposeHostKey, node, ed25519.SeedSize))
	comment := "root@" + node
	blob := sshPublic(key.Public().(ed25519.PublicKey))
	public = append([]byte("ssh-ed25519 "+base64.StdEncoding.EncodeToString(blob)+" "+comment), '\n')
	return pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: sshPrivate(key, comment)}), public
}

func sshPublic(key ed25519.PublicKey) []byte {
	return sshString(sshString(nil, []byte("ssh-ed25519")), key)
}

// sshPrivate returns the content of an OpenSSH key file without a password (OpenSSH, PROTOCOL.key). The format has a
// random number twice, to check a password. Without a password any number works, and a fixed one makes the file
// reproducible.
func sshPrivate(key ed25519.PrivateKey, comment string) []byte {
	public := key.Public().(ed25519.PublicKey)
	secret := []byte{0, 0, 0, 0, 0, 0, 0, 0}
	secret = sshString(secret, []byte("ssh-ed25519"))
	secret = sshString(secret, public)
	secret = sshString(secret, key)
	secret = sshString(secret, []byte(comment))
	for i := byte(1); len(secret)%8 != 0; i++ {
		secret = append(secret, i)
	}
	out := []byte("openssh-key-v1\x00")
	out = sshString(out, []byte("none")) // cipher
	out = sshString(out, []byte("none")) // key derivation
	out = sshString(out, nil)            // options of the key derivation
	out = binary.BigEndian.AppendUint32(out, 1)
	out = sshString(out, sshPublic(public))
	return sshString(out, secret)
}

// sshString appends a string in ssh's encoding (RFC 4251 section 5).
func sshString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
