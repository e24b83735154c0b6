package server

import (
	"slices"
	"testing"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/registry"
)

// TestBuiltExtensionReachesNobody: a build of an extension changes nothing on nodes that have the extension; a moved
// tag or a requested release does. The first build for another version of the image goes to its nodes.
func TestBuiltExtensionReachesNobody(t *testing.T) {
	s := startSite(t)
	old := s.withSystemd("252.1")
	c, ctx := operatorOf(t, s), t.Context()
	built := func(base fleet.Digest, root string, release bool) (fleet.Digest, []string) {
		t.Helper()
		d := s.putExtension("tools", base,
			image.Root{FileSystem: "erofs", Index: chunk.Sum([]byte(root)), Size: 4096, ChunkSize: 65536})
		img, err := c.AddVersion(ctx, "tools",
			api.VersionAdd{Version: d, Tags: []string{fleet.LatestTag}, Release: release})
		if err != nil {
			t.Fatal(err)
		}
		return d, img.TagsKept
	}
	over := func(what string, base, want fleet.Digest) {
		t.Helper()
		s.update(func(tx *registry.Tx) error {
			got, problems := s.versions.Over(tx, []string{"tools"}, base)
			if len(problems) > 0 || len(got) != 1 || got[0].Version != want {
				t.Errorf("%s: %v, %v, want %s", what, got, problems, want.Short())
			}
			return nil
		})
	}
	unused, kept := built(old, "0", false)
	over("the first", old, unused)
	first, kept2 := built(old, "1", false)
	if kept != nil || kept2 != nil {
		t.Errorf("tags of an extension that no node has stay: %v, %v", kept, kept2)
	}
	over("nobody has it", old, first)
	s.boot(1, "")
	if _, err := c.SetGroup(ctx, fleet.DefaultGroup, api.GroupSet{Settings: fleet.Settings{
		Keeping: fleet.Keeping{Extensions: &[]string{"tools"}}}}); err != nil {
		t.Fatal(err)
	}
	second, kept := built(old, "2", false)
	if !slices.Equal(kept, []string{fleet.LatestTag}) {
		t.Errorf("kept are %v", kept)
	}
	over("built again", old, first)
	if _, err := c.SetTag(ctx, "tools", fleet.LatestTag, api.TagSet{Ref: fleet.Ref("tools@" + second)}); err != nil {
		t.Fatal(err)
	}
	over("the tag was moved", old, second)
	next := s.withSystemd("252.1", otherRoot(2))
	third, kept := built(next, "3", false)
	if kept != nil {
		t.Errorf("the first for another version of the image leaves %v", kept)
	}
	over("on the other version", next, third)
	over("the tag is on that of another version", old, second)
	if _, kept = built(old, "4", false); len(kept) != 1 {
		t.Errorf("kept are %v", kept)
	}
	over("built again for the old version", old, second)
	last, kept := built(old, "5", true)
	if kept != nil {
		t.Errorf("a release leaves %v", kept)
	}
	over("released", old, last)
	over("the other version after the release", next, third)
}
