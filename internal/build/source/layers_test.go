package source

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLayers: a layer changes the layers below as the OCI image specification says, whatever the order of its
// entries.
func TestLayers(t *testing.T) {
	lower := []entry{
		dir("a"),
		file("a/old", "1"),
		dir("a/sub"),
		file("a/sub/deep", "2"),
		file("b", "3"),
		hard("c", "b"),
		dir("d"),
		file("d/x", "4"),
	}
	for name, c := range map[string]struct {
		upper []entry
		want  string
	}{
		"nothing":                 {nil, "a a/old a/sub a/sub/deep b c d d/x"},
		"whiteout of a file":      {[]entry{file(".wh.b", "")}, "a a/old a/sub a/sub/deep c d d/x"},
		"whiteout of a directory": {[]entry{file(".wh.a", "")}, "b c d d/x"},
		"whiteout of nothing": {[]entry{file(".wh.zz", ""), file("zz/.wh.y", ""), file("b/.wh.y", "")},
			"a a/old a/sub a/sub/deep b c d d/x"},
		"opaque": {[]entry{dir("a"), file("a/.wh..wh..opq", ""), file("a/new", "5")}, "a a/new b " +
			"c d d/x"},
		"opaque after its files": {[]entry{dir("a"), file("a/new", "5"), dir("a/sub"), file("a/sub/n", "6"),
			file("a/.wh..wh..opq", "")}, "a a/new a/sub a/sub/n b c d d/x"},
		"opaque, parents not there": {[]entry{file("a/sub/n", "6"), file("a/.wh..wh..opq", "")}, "a a/sub a/sub/n " +
			"b c d d/x"},
		"opaque root":              {[]entry{file(".wh..wh..opq", ""), file("n", "")}, "n"},
		"whiteout after the file":  {[]entry{file("b", "7"), file(".wh.b", "")}, "a a/old a/sub a/sub/deep b c d d/x"},
		"whiteout before the file": {[]entry{file(".wh.b", ""), file("b", "7")}, "a a/old a/sub a/sub/deep b c d d/x"},
		"whiteout of a new one's":  {[]entry{file("a/sub/n", "8"), file(".wh.a", "")}, "a a/sub a/sub/n b c d d/x"},
		"a directory for a file":   {[]entry{dir("b"), file("b/x", "")}, "a a/old a/sub a/sub/deep b b/x c d d/x"},
		"a file for a directory":   {[]entry{file("a", "")}, "a b c d d/x"},
		"a link for a directory":   {[]entry{link("a", "d"), file("a/y", "")}, "a b c d d/x d/y"},
		"what aufs left": {[]entry{dir(".wh..wh.plnk"), file(".wh..wh.plnk/12.3", ""),
			file(".wh..wh.aufs", "")}, "a a/old a/sub a/sub/deep b c d d/x"},
		"a link to nothing": {[]entry{link("run", "var/run"), file("run/x", ""), link("l", "/var/run/k"),
			file("l/y", "")}, "a a/old a/sub a/sub/deep b c d d/x l run var var/run var/run/k var/run/k/y var/run/x"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _, err := unpackLayers(t, archiveOf(t, lower...), archiveOf(t, c.upper...))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(names(t, tree), " "); got != c.want {
				t.Errorf("the tree has\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestHardLinkIntoAReplacedFile: if a later layer replaces one of a file's two names, the other name keeps the
// content.
func TestHardLinkIntoAReplacedFile(t *testing.T) {
	base := archiveOf(t, file("a", "old"), hard("b", "a"), hard("c", "a"))
	tree, _, err := unpackLayers(
		t,
		base,
		archiveOf(t, file("a", "new"), hard("d", "a"), hard("e", "b"), hard("c", "c")),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "new", "b": "old", "c": "old", "d": "new", "e": "old"} {
		if got, err := os.ReadFile(filepath.Join(tree, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q (%v), want %q", name, got, err, want)
		}
	}
}

// TestDirectoryOfTheLastLayerThatListsIt: a directory has attributes and time of the last layer that lists it, even
// if later layers put files into it.
func TestDirectoryOfTheLastLayerThatListsIt(t *testing.T) {
	first := dir("a").with(func(h *tar.Header) {
		h.Mode, h.Uid, h.PAXRecords = 0o700, 1, map[string]string{
			xattrPrefix + "user.x": "1",
			xattrPrefix + "user.y": "1",
		}
	})
	second := dir("a").with(func(h *tar.Header) {
		h.Mode, h.ModTime, h.PAXRecords = 0o1777, day.AddDate(1, 0, 0), map[string]string{xattrPrefix + "user.y": "2"}
	})
	tree, _, err := unpackLayers(
		t,
		archiveOf(t, first),
		archiveOf(t, second, file("a/x", "")),
		archiveOf(t, file("a/y", ""), file("a/.wh.x", "")),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := `a 41777 0:0 1746515289.123456789 user.y="2"`
	if got := describe(t, tree); !slices.Contains(got, want) {
		t.Errorf("want %s; got\n%s", want, strings.Join(got, "\n"))
	}
}
