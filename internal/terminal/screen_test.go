package terminal

import (
	"testing"
)

func TestCut(t *testing.T) {
	for in, want := range map[string]string{"pc001": "pc001", "pc0012": "pc00~", "Ärger!": "Ärge~", "": ""} {
		if got := Cut(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
