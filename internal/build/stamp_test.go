package build

import (
	"fmt"
	"os"
	"testing"
)

// TestStampOfAnotherRevision: what another Pando left unfinished is not gone on with.
func TestStampOfAnotherRevision(t *testing.T) {
	w := &workDir{path: t.TempDir(), revision: 2}
	if err := os.WriteFile(w.file("part"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.putStamp("part", stamp{Of: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.stamped("part", "x"); !ok {
		t.Error("a part of this revision is not used")
	}
	other := fmt.Sprintf(`{"of": "x", "revision": %d}`, 1)
	if err := os.WriteFile(w.file("part.stamp"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.stamped("part", "x"); ok {
		t.Error("a part of another revision is used")
	}
}
