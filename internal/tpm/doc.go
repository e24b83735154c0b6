// Package tpm signs a digest with a key of the machine's TPM 2.0, which proves that the same machine boots again.
//
// It owns no state: the key is derived from the TPM's seed each time. Registration uses it. It must not be the reason
// that a boot fails.
package tpm
