package image

import (
	"bytes"
	"errors"
	"slices"

	"aead.dev/minisign"
)

// MaxSignatures is how many keys may have signed one thing.
const MaxSignatures = 8

// signatureLines is how many lines a signature of minisign has: a comment, the signature, the comment that it signs,
// and the signature of both.
const signatureLines = 4

// nextSignature cuts the first signature off a file that has one after another.
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

// SplitSignatures returns the signatures of a file that has one after another. A program that knows of one reads the
// first.
func SplitSignatures(file []byte) [][]byte {
	var out [][]byte
	for rest := bytes.TrimSpace(file); len(rest) > 0; {
		var s []byte
		s, rest = nextSignature(rest)
		out = append(out, append(bytes.TrimSpace(s), '\n'))
	}
	return out
}

// JoinSignatures returns a file with the signatures of all files, in order; of one key the first. What is no signature
// is left out, and what is more than MaxSignatures.
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

// Signers returns those of keys (minisign public keys) whose good signature of a manifest is in a signature file.
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

// OnlyBy keeps the signatures that keys made, good ones of a manifest.
func OnlyBy(manifest, signature []byte, keys []string) []byte {
	return SignaturesBy(manifest, signature, trustedComment+string(Version(manifest)), keys)
}

// SignaturesBy keeps the signatures that keys made of data with that trusted comment.
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
