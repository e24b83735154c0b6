package tftp

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseRequestOfRealFirmware(t *testing.T) {
	tests := []struct {
		file string
		want readRequest
	}{
		{
			"ovmf-size.bin",
			readRequest{
				name:    "snponly.efi",
				block:   1468,
				window:  4,
				size:    true,
				options: []string{"tsize", "blksize", "windowsize"},
			},
		},
		{
			"ovmf-read.bin",
			readRequest{name: "snponly.efi", block: 1468, window: 4, options: []string{"blksize", "windowsize"}},
		},
		{
			"ipxe-1.21-autoexec.bin",
			readRequest{name: "autoexec.ipxe", block: 1432, size: true, options: []string{"blksize", "tsize"}},
		},
		{
			"ipxe-read.bin",
			readRequest{name: "undionly.kpxe", block: 1432, size: true, options: []string{"blksize", "tsize"}},
		},
	}
	for _, tt := range tests {
		b, err := os.ReadFile("testdata/packets/" + tt.file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseRequest(b[2:])
		if err != nil || got.name != tt.want.name || got.block != tt.want.block || got.window != tt.want.window ||
			got.size != tt.want.size || !slices.Equal(got.options, tt.want.options) {
			t.Errorf("%s: %+v, %v, want %+v", tt.file, got, err, tt.want)
		}
	}
}

func TestParseRequest(t *testing.T) {
	tests := []struct {
		in      string // NUL is written as |
		options string
		err     bool
	}{
		{"f|octet|", "", false},
		{"f|OcTeT|BLKSIZE|1428|", "blksize", false},
		{"f|octet|blksize|7|windowsize|0|timeout|0|", "", false},
		{"f|octet|blksize|-1|timeout|256|", "", false},
		{"f|octet|blksize|99999999999999999999|", "", false},
		{"f|octet|blksize|512|blksize|1024|", "blksize", false},
		{"f|octet|multicast||unknown|1|tsize|0|", "tsize", false},
		{"f|octet|blksize|", "", false},
		{"f|mail|", "", true},
		{"f|octet", "", true},
		{"f|", "", true},
		{"|", "", true},
		{"", "", true},
		{strings.Repeat("a|", 100), "", true},
	}
	for _, tt := range tests {
		r, err := parseRequest([]byte(strings.ReplaceAll(tt.in, "|", "\x00")))
		if (err != nil) != tt.err || strings.Join(r.options, " ") != tt.options {
			t.Errorf("parseRequest(%q) = %+v, %v", tt.in, r, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("snponly.efi\x00octet\x00tsize\x000\x00blksize\x001468\x00windowsize\x004\x00"))
	f.Add([]byte("a\x00netascii\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRequest(b)
		if err != nil {
			return
		}
		if r.block != 0 && (r.block < minBlock || r.block > maxBlock) || r.timeout > maxTimeout || r.window < 0 ||
			len(r.options) > 4 {
			t.Errorf("parseRequest(%q) = %+v", b, r)
		}
		parseError(b)
	})
}
