package image

import (
	"bytes"
	"errors"
	"slices"

	"aead.dev/minisign"
)

// MaxSignatures is how many keys may sign one thing.
const MaxSignatures = 8

// signatureLines is the number of lines of a minisign signature: a comment, the signature, the trusted comment, and
// the signature of both.
const signatureLines = 4

// nextSignature splits off the first signature of a file with several.
func nextSignature(file []byte) (signature, rest []byte) {
	file = bytes.TrimSpace(file)
	n := 0
	for range signatureLines {
		i := bytes.IndexByte(file[n:], '\n')
		if i < 0 {
			return file, nil
		}
		n += i + 1
	}
	return file[:n], bytes.TrimSpace(file[n:])
}

// SplitSignatures returns the signatures in a file, one after the other. A program that expects one signature reads
// the first.
func SplitSignatures(file []byte) [][]byte {
	var out [][]byte
	for rest := bytes.TrimSpace(file); len(rest) > 0; {
		var s []byte
		s, rest = nextSignature(rest)
		out = append(out, append(bytes.TrimSpace(s), '\n'))
	}
	return out
}

// JoinSignatures returns a file with the signatures of all files in order, and only the first of each key. It leaves
// out what is no signature, and signatures beyond MaxSignatures.
func JoinSignatures(files ...[]byte) []byte {
	var out []byte
	seen := map[uint64]bool{}
	for _, f := range files {
		for _, text := range SplitSignatures(f) {
			var s minisign.Signature
			if s.UnmarshalText(text) != nil || seen[s.KeyID] || len(seen) == MaxSignatures ||
				len(out)+len(text) > MaxSignature {
				continue
			}
			seen[s.KeyID] = true
			out = append(out, text...)
		}
	}
	return out
}

// Signers returns those of keys (minisign public keys) by which a signature file has a valid signature of a manifest.
func Signers(manifest, signature []byte, keys []string) []string {
	return signers(manifest, signature, trustedComment+string(Version(manifest)), keys)
}

func signers(data, signature []byte, comment string, keys []string) []string {
	all := SplitSignatures(signature)
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return !slices.ContainsFunc(
			all,
			func(s []byte) bool { return Trust{Keys: []string{key}}.VerifyBytes(data, s, comment) == nil },
		)
	})
}

// OnlyBy returns the valid signatures of a manifest that were made by one of keys.
func OnlyBy(manifest, signature []byte, keys []string) []byte {
	return SignaturesBy(manifest, signature, trustedComment+string(Version(manifest)), keys)
}

// SignaturesBy returns the valid signatures of data with that trusted comment that were made by one of keys.
func SignaturesBy(data, signature []byte, comment string, keys []string) []byte {
	all := SplitSignatures(signature)
	return JoinSignatures(
		slices.DeleteFunc(
			all,
			func(s []byte) bool { return Trust{Keys: keys}.VerifyBytes(data, s, comment) != nil },
		)...)
}

// ParseKey parses a minisign public key: its base64, or the text of its file. It returns the base64.
func ParseKey(text string) (string, error) {
	var k minisign.PublicKey
	if err := k.UnmarshalText(bytes.TrimSpace([]byte(text))); err != nil {
		return "", errors.New(
			"not a minisign public key, such as RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3",
		)
	}
	return k.String(), nil
}
