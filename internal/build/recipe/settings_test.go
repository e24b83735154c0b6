package recipe

import (
	"flag"
	"os"
	"pando/internal/workdir"
	"slices"
	"strings"
	"testing"
)

// update makes the test write the golden files with the files and commands that a recipe becomes.
var update = flag.Bool("rewrite", false, "rewrite golden files")

func TestSettings(t *testing.T) {
	const text = `
from: debian:bookworm
kernel: linux-image-rt-{architecture}
architecture: amd64
locale: de_DE.UTF-8
timezone: Europe/Berlin
repositories:
  - name: tools
    address: https://tools.example/debian
    components: [stable]
    key: |
      -----BEGIN PGP PUBLIC KEY BLOCK-----

      mDMEXEcE6RYJKwYBBAHaRw8BAQdArjWwk3FAqyiFbFBKT4TzXcVBqPTB3gmzlC/U
      -----END PGP PUBLIC KEY BLOCK-----
users:
  - {name: pupil, uid: 1001, groups: [audio, video], comment: "A pupil's", ssh_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA a@b]}
  - {name: root, password_hash: $y$j9T$abcdefgh$0123456789}
units: {enable: [a.service], mask: [b.timer, c.timer]}
`
	r, err := Parse("lab.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(r.Packages, "linux-image-amd64") || !slices.Contains(r.Packages, "linux-image-rt-amd64") ||
		!slices.Contains(r.Packages, "locales") ||
		!slices.Contains(r.Packages, "tzdata") {
		t.Errorf("packages: %q", r.Packages)
	}
	var out strings.Builder
	for _, p := range r.Repositories {
		out.WriteString(p.sources(r))
	}
	for _, s := range r.settings() {
		out.WriteString("--\n" + s + "\n")
	}
	const golden = "testdata/settings.golden"
	want, err := os.ReadFile(golden)
	if *update {
		want, err = []byte(out.String()), os.WriteFile(golden, []byte(out.String()), 0o644)
	}
	if err != nil || out.String() != string(want) {
		t.Errorf("%v; got:\n%s\nwant:\n%s", err, out.String(), want)
	}
	b := &Maker{Recipe: r, Work: &workdir.Dir{Path: t.TempDir()}}
	args, err := b.MmdebstrapArgs(r, "")
	if err != nil || !slices.ContainsFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "--setup-hook=") && strings.Contains(a, "tools.sources")
	}) {
		t.Errorf("mmdebstrap is not told of the repository: %q, %v", args, err)
	}
}
