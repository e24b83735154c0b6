package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// readTimeout bounds reading the whole root on an emulated machine while a build runs.
const readTimeout = 3 * bootTimeout

// secondRecipe changes most of the files that the guest has not read, so that their chunks belong to the first version
// only.
const secondRecipe = `from: bookworm
files:
- path: /etc/second
  content: |
    the second version
customize:
- find $(ls -d /usr/share/doc /usr/share/perl* /usr/lib/x86_64-linux-gnu/perl*) -type f -exec sh -c 'for f; do echo "# second" >> "$f"; done' sh {} +
- rm -rf /usr/share/locale /usr/share/i18n
`

// A machine runs a version while the next one is built. The first version loses its tags, and garbage collection runs.
// The machine still reads the right bytes, most of them for the first time. After a reboot into the new version, the
// old one is removed.
func TestRealBuildBesideGuest(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 22, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	m := s.boot(n)
	first := s.latest(n)
	old := first.Version
	s.command("image", "tag", "bookworm@"+string(old), "before")
	c, g := s.content(n.name), s.shell(n)
	want, err := c.Sums("usr")
	if err != nil || len(want) < 5000 {
		t.Fatalf("%d files, %v", len(want), err)
	}

	read := s.readAll(g, "/usr/sbin")
	s.buildSecond()
	s.compareAll(want, "usr/sbin/", read)
	s.command("image", "delete", "bookworm:before")
	out := s.collect()
	if held := heldBy(out, old); !slices.Contains(held, "node "+n.name) || len(held) != 1 {
		t.Errorf("the version that runs is held by %q", held)
	}
	s.command("store", "check")
	s.compareAll(want, "usr/", s.readAll(g, "/usr"))
	s.noErrors(n, g)

	if _, err := g.Run(t.Context(), "systemctl reboot"); err != nil {
		t.Logf("reboot: %v (the connection may end before the command does)", err)
	}
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != first.ID && n.Boot.State.Reached() && n.Running == n.Desired &&
			n.Running != old
	})
	g = s.shell(n)
	if got := s.run(g, "cat /etc/second"); got != "the second version" {
		t.Errorf("/etc/second: %q", got)
	}
	s.prove(n, g)
	out = s.collect()
	if !slices.ContainsFunc(out.Versions, func(v api.CollectVersion) bool { return v.Version == old }) ||
		out.Objects < 100 {
		t.Errorf("the first version did not go: %+v", out)
	}
	t.Logf("removed %d objects, %.1f MB", out.Objects, float64(out.Bytes)/1e6)
	s.command("store", "check")
}

// buildSecond builds the next version of bookworm from the first.
func (s *site) buildSecond() {
	s.t.Helper()
	recipe := filepath.Join(s.dir, "second.yaml")
	s.write(recipe, []byte(secondRecipe))
	s.t.Logf("%s", s.command("image", "build", bookworm, "--recipe", recipe))
}

// readAll starts reading every file below a directory, in a guest whose page cache was emptied.
func (s *site) readAll(g *testkit.Guest, dir string) (wait func() (string, error)) {
	s.t.Helper()
	s.run(g, "echo 3 > /proc/sys/vm/drop_caches")
	ctx, cancel := context.WithTimeout(s.t.Context(), readTimeout)
	s.t.Cleanup(cancel)
	return g.Start(
		ctx,
		fmt.Sprintf("cd / && find %s -xdev -type f -print0 | xargs -0 sha256sum --zero", strings.TrimPrefix(dir, "/")),
	)
}

// compareAll compares checksums of the guest with those of the image, for files whose path has a prefix.
func (s *site) compareAll(want map[string]string, prefix string, read func() (string, error)) {
	s.t.Helper()
	out, err := read()
	if err != nil {
		s.t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		sum, path, _ := strings.Cut(line, "  ")
		got[path] = sum
	}
	count := 0
	for path, sum := range want {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		count++
		if got[path] != sum {
			s.t.Errorf("%s: sum %q, in the image %s", path, got[path], sum)
		}
	}
	if count != len(got) || count == 0 {
		s.t.Errorf("below %s the guest has %d files, the image %d", prefix, len(got), count)
	}
	s.t.Logf("%d files below %s are as in the image", count, prefix)
}

// collect runs garbage collection without a grace period.
func (s *site) collect() (out api.StoreCollected) {
	s.t.Helper()
	text := s.command("store", "gc", "--keep", "0", "--grace", "0s", "--json")
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// heldBy returns what keeps a version from collection.
func heldBy(c api.StoreCollected, v fleet.Digest) []string {
	for _, h := range c.Held {
		if h.Version == v {
			return h.By
		}
	}
	return nil
}
