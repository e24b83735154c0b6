package workdir

import (
	"fmt"
	"os"
	"testing"
)

// TestStampOfAnotherRevision: unfinished work of another revision is not continued.
func TestStampOfAnotherRevision(t *testing.T) {
	w := &Dir{Path: t.TempDir(), revision: 2}
	if err := os.WriteFile(w.File("part"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.PutStamp("part", Stamp{Of: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.Stamped("part", "x"); !ok {
		t.Error("a part of this revision is not used")
	}
	other := fmt.Sprintf(`{"of": "x", "revision": %d}`, 1)
	if err := os.WriteFile(w.File("part.stamp"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.Stamped("part", "x"); ok {
		t.Error("a part of another revision is used")
	}
}
