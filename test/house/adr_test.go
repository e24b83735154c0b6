package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDecisionsAreListed: every decision is in the table of docs/adr/README.md, where people look for it.
func TestDecisionsAreListed(t *testing.T) {
	dir := filepath.Join("../..", "docs/adr")
	list, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d decisions: %v", len(pages), err)
	}
	for _, p := range pages {
		if number, name := filepath.Base(p)[:4], filepath.Base(p); !strings.Contains(
			string(list),
			"| ["+number+"]("+name+") |",
		) {
			t.Errorf("docs/adr/README.md does not list %s", name)
		}
	}
}
