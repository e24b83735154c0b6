package cmdenv

import (
	"context"
	"maps"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/exitcode"
	"pando/internal/fleet"
)

// FindImage is an image; with a tag or digest only that version of it.
func FindImage(ctx context.Context, c *api.Client, text string) (api.Image, error) {
	name, tag, digest, err := fleet.Ref(text).Split()
	if err != nil {
		return api.Image{}, exitcode.AsUsage(err)
	}
	i, err := c.Image(ctx, name)
	if err != nil || !strings.ContainsAny(text, ":@") {
		return i, err
	}
	if tag != "" {
		digest = i.Tags[tag]
	}
	i.Versions = slices.DeleteFunc(i.Versions, func(v api.Version) bool { return v.Digest != digest })
	if len(i.Versions) == 0 {
		return i, api.NewError(
			api.NotFound,
			"image "+text+": not found",
			"`pando image show "+name+"` lists tags and versions",
		)
	}
	maps.DeleteFunc(i.Tags, func(_ string, d fleet.Digest) bool { return d != digest })
	return i, nil
}
