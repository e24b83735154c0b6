package versions

import (
	"fmt"
	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"slices"
)

// Over returns the extensions among refs that fit the version base, and an error for each that does not. A digest means
// exactly that version. A tag means its version if that fits base, else the last version of the tag that did, else the
// newest that does. So during a rollout nodes of both versions have it.
func (v *Cache) Over(tx *registry.Tx, refs []string, base fleet.Digest) (out []fleet.Extension, problems []error) {
	for _, r := range refs {
		e, err := v.extension(tx, fleet.Ref(r), base)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		out = append(out, e)
	}
	return out, problems
}

func (v *Cache) extension(tx *registry.Tx, ref fleet.Ref, base fleet.Digest) (fleet.Extension, error) {
	name, tag, digest, err := ref.Split()
	if err != nil {
		return fleet.Extension{}, err
	}
	rebuild := fmt.Sprintf("build it for that version: pando image extend IMAGE@%s --name %s", base, name)
	is, err := tx.Resolve(ref)
	if err != nil {
		return fleet.Extension{}, httpapi.WithHint(
			fmt.Errorf("extension %s: %w", ref, err),
			"`pando image list` shows what there is; `pando image extend` builds one",
		)
	}
	m, err := v.Manifest(is)
	if err != nil {
		return fleet.Extension{}, fmt.Errorf("extension %s: %w", ref, err)
	}
	fits := m.Fits(base)
	if fits == nil {
		return fleet.Extension{Name: m.Extends.Name, Version: is}, nil
	}
	if !m.IsExtension() {
		return fleet.Extension{}, api.NewError(
			api.Conflict,
			fmt.Sprintf("%s: %v", ref, fits),
			"give it as the image (--image), or build an extension: pando image extend "+string(ref)+" --name NAME",
		)
	}
	var others []fleet.Digest
	if digest == "" { // a digest means exactly that version
		if others, err = othersOf(tx, name, tag); err != nil {
			return fleet.Extension{}, err
		}
	}
	for _, other := range others {
		if m, err := v.Manifest(other); err == nil && m.Fits(base) == nil {
			return fleet.Extension{Name: m.Extends.Name, Version: other}, nil
		}
	}
	return fleet.Extension{}, api.NewError(api.Conflict, fits.Error(), rebuild)
}

// othersOf returns the versions of an extension: first those that a tag pointed at, the last one first, then all,
// newest first.
func othersOf(tx *registry.Tx, name, tag string) (out []fleet.Digest, err error) {
	all, err := tx.Versions(name)
	if err != nil {
		return nil, err
	}
	moves, err := tx.TagMoves(name)
	for _, m := range moves {
		there := slices.ContainsFunc(all, func(v registry.ImageVersion) bool { return v.Version == m.Version })
		if m.Tag == tag && there {
			out = append(out, m.Version)
		}
	}
	for _, v := range all {
		out = append(out, v.Version)
	}
	return out, err
}

// GoTogether returns an error if nodes could not get all of these extensions with this image.
func (v *Cache) GoTogether(tx *registry.Tx, image fleet.Ref, refs []string) error {
	if image == "" {
		return nil // a missing image is reported elsewhere
	}
	base, err := tx.Resolve(image)
	if err != nil {
		return nil //nolint:nilerr // another check reports a missing image
	}
	if m, err := v.Manifest(base); err == nil && m.IsExtension() {
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("%s is an extension, which cannot boot", image),
			"give it with --extend, beside the image that it was made on",
		)
	}
	_, problems := v.Over(tx, refs, base)
	for _, p := range problems {
		return p
	}
	return nil
}
