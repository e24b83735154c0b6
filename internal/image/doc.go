// Package image describes one immutable version of an image: the manifest, its signature, and the files beside it.
//
// A version is named by its digest, the SHA-256 of its manifest's exact bytes. The manifest names the kernel, the
// driver archives and the index of the root file system as objects, so the digest covers every byte that a node runs.
// The signature is detached and made with the site key in the format of minisign. The provenance says who built the
// version, when, how and from which packages. It is neither signed nor part of the digest, so the same tree gives the
// same version on any day.
//
// It owns the format of manifests (docs/formats/manifest.md). The build, the server and the nodes use it; package
// bootpack describes boot packs. It must never read a file or a clock.
package image
