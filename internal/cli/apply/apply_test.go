package apply

import (
	"strings"
	"testing"

	"pando/internal/cmdenv"
	"pando/internal/exitcode"
)

// TestNothingWithoutAWord: without a terminal a command that asks for confirmation does nothing, unless --yes is given.
func TestNothingWithoutAWord(t *testing.T) {
	for _, json := range []bool{false, true} {
		env := &cmdenv.Env{In: strings.NewReader("y\n"), JSON: json}
		if err := confirm(env, 3, false); err == nil || !strings.Contains(exitcode.HintOf(err), "--yes does these 3") {
			t.Errorf("without a terminal: %v", err)
		}
		if err := confirm(env, 3, true); err != nil {
			t.Errorf("with --yes: %v", err)
		}
	}
}
