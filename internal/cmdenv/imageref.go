package cmdenv

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/exitcode"
	"pando/internal/fleet"
)

// FindImage returns an image. If the reference has a tag or digest, the image has only that version.
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
		digest = cmp.Or(i.Tags[tag], "no such tag")
	}
	tags := slices.Sorted(maps.Keys(i.Tags))
	i.Versions = slices.DeleteFunc(i.Versions, func(v api.Version) bool { return !digest.Begins(v.Digest) })
	if len(i.Versions) > 1 {
		return i, exitcode.Usagef("image %s: several versions begin so: write more digits", text)
	}
	if len(i.Versions) == 0 {
		return i, noVersion(text, name, tags)
	}
	maps.DeleteFunc(i.Tags, func(_ string, d fleet.Digest) bool { return d != i.Versions[0].Digest })
	return i, nil
}

// FindVersion returns the version that a reference resolves to.
func FindVersion(ctx context.Context, c *api.Client, text string) (fleet.Digest, error) {
	i, err := FindImage(ctx, c, string(fleet.Ref(text).WithTag()))
	if err != nil {
		return "", err
	}
	return i.Versions[0].Digest, nil
}

func noVersion(text, name string, tags []string) error {
	kind := "version"
	if fleet.Ref(text).IsTag() {
		kind = "tag"
	}
	return api.NewError(
		api.NotFound,
		"no "+kind+" "+text+": image "+name+" has "+fleet.TagList(tags),
		"`pando image show "+name+"` lists tags and versions",
	)
}
