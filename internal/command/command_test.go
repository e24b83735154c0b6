package command

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMountsEndWithTheirProgram: no other process sees a program's mounts, so they cannot outlive it, and no clean-up
// can delete what is mounted.
func TestMountsEndWithTheirProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts")
	}
	dir := t.TempDir()
	c := Command{Args: []string{"sh", "-c", `mount -t tmpfs none "$1" && touch "$1/inside" && ls "$1"`, "sh", dir}}
	output := ""
	c.Each = func(line string) { output += line }
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if output != "inside" {
		t.Errorf("the program saw %q in what it mounted", output)
	}
	if _, err := os.Stat(filepath.Join(dir, "inside")); err == nil {
		t.Error("the mount outlived its program")
	}
}
