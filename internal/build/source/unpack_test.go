package source

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestUnpackKeepsAll: the tree has all attributes that an archive has for a file.
func TestUnpackKeepsAll(t *testing.T) {
	capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	tree, notes, err := unpackLayers(t, archiveOf(
		t,
		dir(".").with(func(h *tar.Header) { h.Mode = 0o750 }),
		dir("usr").with(func(h *tar.Header) { h.Uid, h.Gid, h.Mode = 3, 4, 0o2775 }),
		file(
			"usr/ping",
			"x",
		).with(func(h *tar.Header) {
			h.PAXRecords = map[string]string{xattrPrefix +
				"security.capability": capability}
		}),
		file("usr/su", "su").with(func(h *tar.Header) { h.Mode, h.Uid, h.Gid = 0o4755, 0, 7 }),
		hard("usr/su2", "/usr/su"),
		link("usr/abs", "/etc/passwd").with(func(h *tar.Header) { h.Uid = 5 }),
		hard("usr/abs2", "usr/abs"),
		file("usr/attr", "").with(func(h *tar.Header) {
			h.PAXRecords = map[string]string{
				xattrPrefix + "user.a":                   "1\x002",
				xattrPrefix + "trusted.overlay.redirect": "/root",
			}
		}),
		entry{h: tar.Header{Typeflag: tar.TypeChar, Name: "dev/console", Mode: 0o600, Devmajor: 5, Devminor: 1}},
		entry{h: tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda", Mode: 0o660, Gid: 6, Devmajor: 8}},
		entry{h: tar.Header{Typeflag: tar.TypeFifo, Name: "dev/pipe", Mode: 0o622}},
		file("bytes/\xff\n\\ \t'", "odd"),
	))
	if err != nil {
		t.Fatal(err)
	}
	const at = "1714979289.123456789"
	want := []string{
		". 40750 0:0 " + at,
		"bytes 40755 0:0 " + at,
		"bytes/\xff\n\\ \t' 100644 0:0 " + at + ` "odd"`,
		"dev 40755 0:0 " + at,
		"dev/console 20600 0:0 " + at + " 5:1",
		"dev/pipe 10622 0:0 " + at,
		"dev/sda 60660 0:6 " + at + " 8:0",
		"usr 42775 3:4 " + at,
		"usr/abs 120777 5:0 " + at + " -> /etc/passwd",
		"usr/abs2 120777 5:0 " + at + " -> /etc/passwd is usr/abs",
		"usr/attr 100644 0:0 " + at + ` "" user.a="1\x002"`,
		"usr/ping 100644 0:0 " + at + ` "x" security.capability="\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"`,
		"usr/su 104755 0:7 " + at + ` "su"`,
		"usr/su2 104755 0:7 " + at + ` "su" is usr/su`,
	}
	got := describe(t, tree)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d differs; got\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	output := strings.Join(notes, "\n")
	for _, part := range []string{`1 set-uid programs are kept; the first is "usr/su"`,
		`1 programs with file capabilities`, "2 device nodes",
		`1 attributes of the machine that the tree comes from are left out; the first is "usr/attr trusted.overlay.redirect"`} {
		if !strings.Contains(output, part) {
			t.Errorf("the notes do not say %q:\n%s", part, output)
		}
	}
}

// TestUnpackOtherNotations: attributes of the archive's own file system are left out and counted. ACLs and attributes
// in the notations of GNU tar --acls, star and bsdtar are kept; those that cannot be kept are reported.
func TestUnpackOtherNotations(t *testing.T) {
	with := func(name string, records ...string) entry {
		return file(name, "").with(func(h *tar.Header) {
			h.PAXRecords = map[string]string{}
			for i := 0; i < len(records); i += 2 {
				h.PAXRecords[records[i]] = records[i+1]
			}
		})
	}
	tree, notes, err := unpackLayers(t, archiveOf(
		t,
		with("btrfs", xattrPrefix+"btrfs.compression", "zstd", xattrPrefix+"user.a", "1"),
		with("nfs", xattrPrefix+"system.nfs4_acl", "\x00\x00\x00\x01"),
		with("lustre", xattrPrefix+"lustre.lov", "x", xattrPrefix+"trusted.lov", "x"),
		with("mac", xattrPrefix+"com.apple.provenance", "x"),
		with("gnu", "SCHILY.acl.access", "user::rw-,user:1234:r--,group::r--,mask::r--,other::r--"),
		with("star", "SCHILY.acl.access", "user::rwx,user:lisa:r-x:1001,group::r-x,group:toolies:rwx:204,mask:rwx,other:r-x"),
		with("mode", "SCHILY.acl.access", "user::rw-\ngroup::r--\nother::r--\n"),
		with("names", "SCHILY.acl.access", "user::rw-,user:lisa:r--,group::r--,mask::r--,other::r--"),
		with("nfs4", "SCHILY.acl.ace", "owner@:rwx:allow"),
		with("bsd", "LIBARCHIVE.xattr.user.b", "AQI"),
	))
	if err != nil {
		t.Fatal(err)
	}
	acl := func(entries string) string {
		return "system.posix_acl_access=" + strconv.Quote("\x02\x00\x00\x00"+entries)
	}
	const none = "\xff\xff\xff\xff"
	lines := strings.Join(describe(t, tree), "\n")
	for _, want := range []string{
		`btrfs 100644 0:0 1714979289.123456789 "" user.a="1"` + "\n",
		`nfs 100644 0:0 1714979289.123456789 ""` + "\n",
		`lustre 100644 0:0 1714979289.123456789 ""` + "\n",
		`mac 100644 0:0 1714979289.123456789 ""` + "\n",
		`mode 100644 0:0 1714979289.123456789 ""` + "\n",
		`bsd 100644 0:0 1714979289.123456789 "" user.b="\x01\x02"` + "\n",
		acl("\x01\x00\x06\x00" + none + "\x02\x00\x04\x00\xd2\x04\x00\x00\x04\x00\x04\x00" + none +
			"\x10\x00\x04\x00" + none + "\x20\x00\x04\x00" + none),
		acl("\x01\x00\x07\x00" + none + "\x02\x00\x05\x00\xe9\x03\x00\x00\x04\x00\x05\x00" + none +
			"\x08\x00\x07\x00\xcc\x00\x00\x00\x10\x00\x07\x00" + none + "\x20\x00\x05\x00" + none),
	} {
		if !strings.Contains(lines+"\n", want) {
			t.Errorf("no %s in\n%s", want, lines)
		}
	}
	output := strings.Join(notes, "\n")
	for _, want := range []string{`5 attributes of the machine`, `first is "btrfs btrfs.compression"`, `2 ACLs are lost`,
		`"names SCHILY.acl.access"`} {
		if !strings.Contains(output, want) {
			t.Errorf("the notes do not say %q:\n%s", want, output)
		}
	}
}

// TestUnpackIsRepeatable: the tree depends neither on the builder's umask nor on the order of the files.
func TestUnpackIsRepeatable(t *testing.T) {
	a, _, err := unpackLayers(
		t,
		archiveOf(t, dir("a"), file("a/x", "1"), dir("b"), file("b/y", "2"), file("c/d/z", "3")),
	)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := unpackLayers(
		t,
		archiveOf(t, file("c/d/z", "3"), file("b/y", "2"), dir("b"), file("a/x", "0"), dir("a"), file("a/x", "1")),
	)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := describe(t, a), describe(t, b); !slices.Equal(x, y) {
		t.Errorf("two trees differ:\n%s\n\n%s", strings.Join(x, "\n"), strings.Join(y, "\n"))
	}
}

// TestNothingLeavesTheTree: no archive makes or changes a file outside of the tree.
func TestNothingLeavesTheTree(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := describe(t, outside)
	up := strings.Repeat("../", 20)
	for name, c := range map[string]struct {
		layers [][]entry
		err    string // "" the file lands in the tree
	}{
		"name with ..":             {[][]entry{{file(up+outside[1:]+"/new", "x")}}, `leads out of the tree`},
		"name with .. in it":       {[][]entry{{dir("a"), file("a/../../b", "x")}}, `leads out of the tree`},
		"absolute name":            {[][]entry{{file(outside+"/new", "x")}}, ""},
		"through an absolute link": {[][]entry{{link("a", outside), file("a/new", "x")}}, ""},
		"through a link with ..":   {[][]entry{{link("a", up+outside[1:]), file("a/new", "x")}}, ""},
		"a link of a lower layer":  {[][]entry{{link("a", outside)}, {file("a/new", "x"), file("a/secret", "x")}}, ""},
		"over a link":              {[][]entry{{link("a", secret)}, {file("a", "x")}}, ""},
		"directory over a link":    {[][]entry{{link("a", outside)}, {dir("a"), file("a/secret", "x")}}, ""},
		"hard link out of it":      {[][]entry{{hard("a", secret)}}, "not there"},
		"hard link with ..":        {[][]entry{{hard("a", up+secret[1:])}}, `leads out of the tree`},
		"hard link through a link": {[][]entry{{link("l", outside), hard("a", "l/secret")}}, "not there"},
		"hard link to a link":      {[][]entry{{link("l", secret), hard("a", "l"), file("a", "x")}}, ""},
		"whiteout through a link":  {[][]entry{{link("l", outside)}, {file("l/.wh.secret", "")}}, ""},
		"opaque through a link":    {[][]entry{{link("l", outside)}, {file("l/.wh..wh..opq", "")}}, ""},
		"whiteout of ..":           {[][]entry{{dir("a")}, {file("a/.wh...", "")}}, "whiteout of no file"},
		"whiteout of .":            {[][]entry{{dir("a")}, {file("a/.wh..", "")}}, "whiteout of no file"},
		"whiteout of nothing":      {[][]entry{{file(".wh.", "")}}, "whiteout of no file"},
		"whiteout with a file":     {[][]entry{{file(".wh.a/b", "")}}, "named .wh.*"},
		"the tree as a link":       {[][]entry{{link(".", outside), file("new", "x")}}, "not a directory"},
		"link in place of a parent": {[][]entry{{dir("a"), file("a/x", "1"), link("a", outside), file("a/new", "x")}},
			""},
		"a magic link":    {[][]entry{{link("a", "/proc/self/root"), file("a"+outside+"/new", "x")}}, ""},
		"a loop of links": {[][]entry{{link("a", "b"), link("b", "a"), file("a/x", "x")}}, "too many levels"},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range c.layers {
				layers = append(layers, archiveOf(t, l...))
			}
			_, _, err := unpackLayers(t, layers...)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if after := describe(t, outside); !slices.Equal(after, before) {
				t.Errorf("outside of the tree there is now\n%s", strings.Join(after, "\n"))
			}
		})
	}
}
