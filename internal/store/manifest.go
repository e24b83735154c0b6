package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/fleet"
	"pando/internal/image"
)

// Version is a stored manifest: its exact bytes and two sidecars.
type Version struct {
	Digest     fleet.Digest
	Manifest   []byte // signed bytes; their SHA-256 is Digest
	Signature  []byte // minisign, over Manifest
	Provenance []byte // JSON, for people; not part of the version, and may be missing
}

const (
	manifestSuffix   = ".json"
	signatureSuffix  = ".minisig"
	provenanceSuffix = ".provenance.json"
)

// ManifestPath returns the path of a manifest's file, whether it exists or not.
func (d *Dir) ManifestPath(v fleet.Digest) string { return d.sidecar(v, manifestSuffix) }

// SignaturePath returns the path of a manifest's signature, whether it exists or not.
func (d *Dir) SignaturePath(v fleet.Digest) string { return d.sidecar(v, signatureSuffix) }

func (d *Dir) sidecar(v fleet.Digest, suffix string) string {
	return filepath.Join(d.manifests(), strings.TrimPrefix(string(v), "sha256:")+suffix)
}

// ManifestBytes returns the exact bytes of a manifest for a sender that does not decode it. The error is
// fs.ErrNotExist if the store does not have it.
func (d *Dir) ManifestBytes(v fleet.Digest) ([]byte, error) { return d.readFile(d.ManifestPath(v)) }

// SignatureBytes returns the signature of a manifest. The error is fs.ErrNotExist if the store does not have it.
func (d *Dir) SignatureBytes(v fleet.Digest) ([]byte, error) { return d.readFile(d.SignaturePath(v)) }

// PutVersion writes the sidecars and then the manifest, so a manifest that can be read is complete. All its objects
// must be durable (see Writer.Sync), and the lock must be held. PutVersion sets Digest. An existing version keeps its
// manifest, and gets the new sidecars.
func (d *Dir) PutVersion(v Version) (fleet.Digest, error) {
	v.Digest = image.Version(v.Manifest)
	if len(v.Provenance) > 0 {
		if err := d.putSidecar(v.Digest, provenanceSuffix, v.Provenance); err != nil {
			return "", err
		}
	}
	if err := d.PutSignature(v.Digest, v.Signature); err != nil {
		return "", err
	}
	return v.Digest, d.putFile(d.ManifestPath(v.Digest), v.Manifest)
}

// PutSignature replaces the signatures of a version. The lock must be held.
func (d *Dir) PutSignature(v fleet.Digest, signature []byte) error {
	return d.putSidecar(v, signatureSuffix, signature)
}

// GetVersion reads a manifest and its sidecars. The error is fs.ErrNotExist if the store does not have it. GetVersion
// checks that the bytes match the digest, but not the signature; see image.Verify.
func (d *Dir) GetVersion(digest fleet.Digest) (Version, error) {
	v := Version{Digest: digest}
	if _, err := fleet.ParseDigest(string(digest)); err != nil {
		return v, err
	}
	var err error
	if v.Manifest, err = d.readFile(d.ManifestPath(digest)); err != nil {
		return v, fmt.Errorf("read version %s: %w", digest, bare(err))
	}
	if got := image.Version(v.Manifest); got != digest {
		return v, fmt.Errorf("read version %s: its manifest hashes to %s; the file was changed", digest, got)
	}
	if v.Signature, err = d.readFile(d.SignaturePath(digest)); err != nil {
		return v, fmt.Errorf("read version %s: signature: %w", digest, bare(err))
	}
	v.Provenance, err = d.readFile(d.sidecar(digest, provenanceSuffix))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return v, fmt.Errorf("read version %s: provenance: %w", digest, bare(err))
	}
	return v, nil
}

// Manifest decodes the manifest of a version without checking its signature.
func (d *Dir) Manifest(v fleet.Digest) (image.Manifest, error) {
	kept, err := d.GetVersion(v)
	if err != nil && kept.Manifest == nil {
		return image.Manifest{}, err
	}
	return image.Decode(kept.Manifest)
}

// Written returns when a version was last written to the store, zero if it does not exist.
func (d *Dir) Written(v fleet.Digest) time.Time {
	if d.cache != nil {
		return d.cache.sidecars.modified(d.ManifestPath(v))
	}
	info, err := os.Lstat(d.ManifestPath(v))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Versions lists the digests of all manifests, sorted.
func (d *Dir) Versions() ([]fleet.Digest, error) {
	files, err := d.manifestFiles()
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	var out []fleet.Digest
	for _, f := range files {
		name, ok := strings.CutSuffix(f, manifestSuffix)
		if !ok {
			continue
		}
		if v, err := fleet.ParseDigest("sha256:" + name); err == nil {
			out = append(out, v)
		}
	}
	return out, nil
}
