// Package image describes one immutable version of an image: the manifest, its signature, and what is kept
// beside it.
//
// The words. A version is named by its digest, the SHA-256 of its manifest's exact bytes. The manifest
// names the kernel, the driver cpios and the index of the root file system as objects, so the digest covers
// every byte that a node runs. The signature is detached and made with the site key in the format of
// minisign. The provenance is a sidecar: who built the version, when, how and from which packages. It is
// not signed and not covered by the digest, or the same tree would be another version every day.
//
// What boots read of a version, its boot pack, is described by package bootpack.
//
// The manifest's bytes are specified in docs/formats/manifest.md.
package image
