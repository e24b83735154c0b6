package extend

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pando/internal/extension"
	"pando/internal/fleet"
	"pando/internal/rundir"
)

// An agent continues from the state of the one before. An extension that was being attached then is detached.
func TestExtenderBegins(t *testing.T) {
	dir := t.TempDir()
	on := extension.Attached{
		Extension: fleet.Extension{Name: "tools", Version: "sha256:1"},
		Device:    8,
		Block:     filepath.Join(dir, "ext-8"),
	}
	left := rundir.FormerRoot{Block: filepath.Join(dir, "ext-9"), Device: 9}
	if err := rundir.WriteJSON(dir, extension.StateName, 0o600,
		extension.State{On: []extension.Attached{on}, Left: []rundir.FormerRoot{left}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ext-8", "ext-9", "ext-10", "ext-x"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e := New(dir, nil, nil, t.Output())
	if has, why := e.Has(); !slices.Equal(has, []fleet.Extension{on.Extension}) || why != "" {
		t.Errorf("it has %v, %s", has, why)
	}
	if want := []rundir.FormerRoot{left, {Block: filepath.Join(dir, "ext-10"), Device: 10}}; !slices.Equal(
		e.state.Left,
		want,
	) {
		t.Errorf("left over is %v, want %v", e.state.Left, want)
	}
	gone := e.without([]fleet.Extension{on.Extension, {Name: "never", Version: "sha256:2"}})
	if has, _ := e.Has(); len(gone) != 1 || gone[0].Block != on.Block || len(has) != 0 {
		t.Errorf("taken out %v, left %v", gone, has)
	}
}
