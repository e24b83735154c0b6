package extension

import (
	"slices"
	"testing"
)

func TestJudge(t *testing.T) {
	got := judge(
		[]outside{
			{path: "etc/shadow"},
			{path: "etc/group", users: "a, b"},
			{path: "etc/ld.so.cache"},
			{path: "etc/ld.so.conf.d/x.conf"},
			{
				path: "etc/daemon",
			},
			{path: "etc/plain"},
			{path: "etc/was", gone: true},
			{path: "var/lib/dpkg/status"},
			{path: "var/lib/x"},
			{path: "srv/y"},
		},
		map[string]string{"etc/daemon/x.conf": "package daemon"},
	)
	var text []string
	for _, l := range got {
		mark := " "
		if l.Essential {
			mark = "!"
		}
		text = append(text, mark+l.Path)
	}
	want := []string{
		"!/etc/daemon",
		"!/etc/group",
		"!/etc/ld.so.conf.d/x.conf",
		" /etc/plain",
		" /etc/was",
		" /srv/y",
		" /var/lib/x",
	}
	if !slices.Equal(text, want) {
		t.Errorf("%q, want %q", text, want)
	}
}

func TestReleaseFile(t *testing.T) {
	for in, want := range map[string]string{
		"ID=debian\nVERSION_ID=\"12\"\n":                   "ID=debian\nVERSION_ID=\"12\"\n",
		"VERSION_ID=3\nID=x\nSYSEXT_LEVEL=7\nNAME=\"X\"\n": "ID=x\nSYSEXT_LEVEL=7\n",
		"ID=debian\n": "ID=debian\n",
	} {
		if got := releaseFile(in); got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}
