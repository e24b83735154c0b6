// Package tpm signs a digest by a key of the machine's TPM 2.0, which proves that the same machine boots again.
//
// It owns nothing: the key is made anew from the TPM's seed each time. Registration uses it. It must not be the
// reason that a boot fails.
package tpm
