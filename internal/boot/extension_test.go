package boot

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// What fits is an extension of what runs, by the name and for the machine that it was assigned for.
func TestFitsHere(t *testing.T) {
	base, other := fleet.Digest(chunk.Sum([]byte("a")).String()), fleet.Digest(chunk.Sum([]byte("b")).String())
	e := fleet.Extension{Name: "tools", Version: other}
	good := image.Manifest{Architecture: runtime.GOARCH, Extends: &image.Extends{Name: "tools", Base: base}}
	if err := fitsHere(good, e, base); err != nil {
		t.Error(err)
	}
	err := fitsHere(good, e, other)
	if err == nil || !strings.Contains(hintOf(err), "pando image extend IMAGE@"+string(other)+" --name tools") {
		t.Errorf("over another version: %v, hint %q", err, hintOf(err))
	}
	for what, bad := range map[string]image.Manifest{
		"an image":        {Architecture: runtime.GOARCH},
		"another name":    {Architecture: runtime.GOARCH, Extends: &image.Extends{Name: "other", Base: base}},
		"another machine": {Architecture: "sparc", Extends: &image.Extends{Name: "tools", Base: base}},
	} {
		if fitsHere(bad, e, base) == nil {
			t.Errorf("%s fits", what)
		}
	}
}

// An agent takes over what one before it had, and what that one was in the middle of is left over.
func TestExtenderBegins(t *testing.T) {
	dir := t.TempDir()
	on := attached{
		Extension: fleet.Extension{Name: "tools", Version: "sha256:1"},
		Device:    8,
		Block:     filepath.Join(dir, "ext-8"),
	}
	left := formerRoot{filepath.Join(dir, "ext-9"), 9}
	if err := writeJSON(dir, extensionsName, 0o600, extensionState{On: []attached{on}, Left: []formerRoot{left}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ext-8", "ext-9", "ext-10", "ext-x"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var e extender
	e.begin(dir)
	if has, why := e.has(); !slices.Equal(has, []fleet.Extension{on.Extension}) || why != "" {
		t.Errorf("it has %v, %s", has, why)
	}
	if want := []formerRoot{left, {filepath.Join(dir, "ext-10"), 10}}; !slices.Equal(e.state.Left, want) {
		t.Errorf("left over is %v, want %v", e.state.Left, want)
	}
	gone := e.without([]fleet.Extension{on.Extension, {Name: "never", Version: "sha256:2"}})
	if has, _ := e.has(); len(gone) != 1 || gone[0].Block != on.Block || len(has) != 0 {
		t.Errorf("taken out %v, left %v", gone, has)
	}
}

// Units that an extension wants are started by systemd-sysext's unit, which only a boot with extensions has.
func TestExtensionFiles(t *testing.T) {
	place := t.TempDir()
	wants := filepath.Join(place, "usr/lib/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.service", "b.timer", "c@.service"} {
		if err := os.Symlink("../"+name, filepath.Join(wants, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := wantedUnits(place); !slices.Equal(got, []string{"a.service", "b.timer"}) {
		t.Errorf("units %q", got)
	}
	if files := extensionFiles(nil); len(files) != 0 {
		t.Errorf("without extensions: %v", files)
	}
	files := extensionFiles([]attached{{Units: wantedUnits(place)}, {}})
	text := string(files[1].Data)
	if files[0].Target != "/usr/lib/systemd/system/systemd-sysext.service" ||
		strings.Count(text, "daemon-reload") != 1 ||
		!strings.Contains(text, "start b.timer\n") {
		t.Errorf("%+v\n%s", files[0], text)
	}
}
