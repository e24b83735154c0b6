package terminal

import (
	"bytes"
	"io"
	"os"
	"testing"

	"pando/internal/output"
)

func TestCut(t *testing.T) {
	for in, want := range map[string]string{"pc001": "pc001", "pc0012": "pc00~", "Ärger!": "Ärge~", "": ""} {
		if got := Cut(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestContent: a file's bytes go unchanged into a pipe, and cleaned to a terminal.
func TestContent(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal can be made here: ", err)
	}
	defer tty.Close()
	w := output.NewWriter(tty)
	if Of(w) != tty || Content(w) != io.Writer(w) {
		t.Error("content would go to the terminal as it is")
	}
	var b bytes.Buffer
	if w := output.NewWriter(&b); Of(w) != nil || Content(w) != io.Writer(&b) {
		t.Error("content would be changed on its way into a pipe")
	}
}
