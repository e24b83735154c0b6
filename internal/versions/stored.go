package versions

import (
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
)

// Stored reads a manifest of the store without a check of its signature, for showing and comparing versions.
func Stored(s *store.Dir, v fleet.Digest) (image.Manifest, error) {
	kept, err := s.GetVersion(v)
	if err != nil && kept.Manifest == nil {
		return image.Manifest{}, err
	}
	return image.Decode(kept.Manifest)
}
