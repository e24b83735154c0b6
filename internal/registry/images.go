package registry

import (
	"errors"
	"fmt"
	"time"

	"pando/internal/fleet"
)

// ImageVersion is a version with the name of its image.
type ImageVersion struct {
	Image   string
	Version fleet.Digest
	Added   time.Time
}

// Versions returns the versions of an image, newest first; "" means all images. An image exists as long as it has a
// version.
func (t *Tx) Versions(image string) ([]ImageVersion, error) {
	v, err := list(t, scanVersion, `SELECT image, version, added FROM versions WHERE ? IN ('', image)
		ORDER BY image, added DESC, version`, image)
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	return v, nil
}

// AddVersion registers a version under an image's name. It does nothing if that exists.
func (t *Tx) AddVersion(v ImageVersion) error {
	_, err := t.exec(`INSERT INTO versions (image, version, added) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		v.Image, string(v.Version), stamp(v.Added))
	if err != nil {
		return fmt.Errorf("add version %s of image %s: %w", v.Version, v.Image, err)
	}
	return nil
}

// DeleteVersion removes a version from an image. It returns ErrNotFound if there is none, and ErrInUse while a tag
// points at it.
func (t *Tx) DeleteVersion(image string, d fleet.Digest) error {
	var tag string
	err := t.row(`SELECT coalesce(min(tag), '') FROM tags WHERE image = ? AND version = ?`, image, string(d)).Scan(&tag)
	if err != nil {
		return fmt.Errorf("delete version %s of image %s: %w", d, image, err)
	}
	if tag != "" {
		return fmt.Errorf("version %s of image %s has tag %s: %w", d, image, tag, ErrInUse)
	}
	n, err := t.exec(`DELETE FROM versions WHERE image = ? AND version = ?`, image, string(d))
	if err != nil {
		return fmt.Errorf("delete version %s of image %s: %w", d, image, err)
	}
	if n == 0 {
		return notFound("version", image+"@"+string(d))
	}
	return nil
}

// named returns an error for a tag unless follow is set: the booted version would change with each build.
func named(who string, r fleet.Ref, follow bool) error {
	if r.IsTag() == follow {
		return nil
	}
	return fmt.Errorf("%s: image %s is a tag: name one version (NAME@sha256:...), or follow the tag", who, r)
}

// Tags returns the tags of an image by name; "" means all images.
func (t *Tx) Tags(image string) ([]fleet.Tag, error) {
	tags, err := list(
		t, scanTag, `SELECT image, tag, version FROM tags WHERE ? IN ('', image) ORDER BY image, tag`, image,
	)
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	return tags, nil
}

// Tag returns one tag, or ErrNotFound.
func (t *Tx) Tag(image, tag string) (fleet.Tag, error) {
	return one(
		t.row(`SELECT image, tag, version FROM tags WHERE image = ? AND tag = ?`, image, tag), scanTag, "tag",
		image+":"+tag,
	)
}

// PutTag points a tag at a version of its image and returns the version before, "" if the tag is new. It returns
// ErrNotFound if the image has no such version.
func (t *Tx) PutTag(tag fleet.Tag) (was fleet.Digest, err error) {
	if err := errors.Join(fleet.ValidName("image", tag.Image), fleet.ValidName("tag", tag.Tag)); err != nil {
		return "", err
	}
	if err := t.hasVersion(tag.Image, tag.Version); err != nil {
		return "", err
	}
	old, err := t.Tag(tag.Image, tag.Tag)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	_, err = t.exec(`INSERT INTO tags (image, tag, version) VALUES (?, ?, ?)
		ON CONFLICT (image, tag) DO UPDATE SET version = excluded.version`, tag.Image, tag.Tag, string(tag.Version))
	if err != nil {
		return "", fmt.Errorf("set tag %s:%s: %w", tag.Image, tag.Tag, err)
	}
	return old.Version, nil
}

// DeleteTag removes a tag, or returns ErrNotFound. The caller must check that no group uses it.
func (t *Tx) DeleteTag(image, tag string) error {
	n, err := t.exec(`DELETE FROM tags WHERE image = ? AND tag = ?`, image, tag)
	if err != nil {
		return fmt.Errorf("delete tag %s:%s: %w", image, tag, err)
	}
	if n == 0 {
		return notFound("tag", image+":"+tag)
	}
	return nil
}

// Resolve returns the version that a reference points at now, or ErrNotFound.
func (t *Tx) Resolve(r fleet.Ref) (fleet.Digest, error) {
	image, tag, digest, err := r.Split()
	if err != nil {
		return "", err
	}
	if digest != "" {
		digest, err = t.version(image, digest)
	} else {
		var found fleet.Tag
		found, err = t.Tag(image, tag)
		digest = found.Version
	}
	if errors.Is(err, ErrNotFound) {
		return "", t.unresolved(image, err)
	}
	return digest, err
}

// unresolved adds to the error of a reference what is wrong: the image is unknown, or which tags it has.
func (t *Tx) unresolved(image string, missing error) error {
	versions, err := t.Versions(image)
	if err != nil {
		return err
	}
	if len(versions) == 0 {
		return notFound("image", image)
	}
	all, err := t.Tags(image)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all))
	for _, tag := range all {
		names = append(names, tag.Tag)
	}
	return fmt.Errorf("%w; image %s has %s", missing, image, fleet.TagList(names))
}

func (t *Tx) hasVersion(image string, d fleet.Digest) error {
	_, err := one(t.row(`SELECT image, version, added FROM versions WHERE image = ? AND version = ?`, image, string(d)),
		scanVersion, "version", image+"@"+string(d))
	return err
}

// version returns the version of an image with a digest, or with a digest that begins with the given digits.
func (t *Tx) version(image string, d fleet.Digest) (fleet.Digest, error) {
	if _, err := fleet.ParseDigest(string(d)); err == nil {
		return d, t.hasVersion(image, d)
	}
	all, err := t.Versions(image)
	if err != nil {
		return "", err
	}
	var found fleet.Digest
	for _, v := range all {
		if !d.Begins(v.Version) {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("several versions of image %s begin with %s: write more digits", image, d.Short())
		}
		found = v.Version
	}
	if found == "" {
		return "", notFound("version", image+"@"+string(d))
	}
	return found, nil
}

func scanVersion(s scanner) (ImageVersion, error) {
	var v ImageVersion
	var added int64
	err := s.Scan(&v.Image, &v.Version, &added)
	v.Added = unstamp(added)
	return v, err
}

func scanTag(s scanner) (fleet.Tag, error) {
	var t fleet.Tag
	err := s.Scan(&t.Image, &t.Tag, &t.Version)
	return t, err
}
