package netboot

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A kernel is known by a message of its EFI stub, wherever the message lies.
func TestReadsInitrdArgs(t *testing.T) {
	message := string(readsInitrdArgs)
	for _, before := range []int{0, 1, 256<<10 - 5, 256 << 10, 256<<10 + 3, 3 << 20} {
		text := strings.Repeat("x", before) + message + strings.Repeat("y", 300_000)
		for _, r := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text))} {
			if reads, err := ReadsInitrdArgs(r); !reads || err != nil {
				t.Errorf("message at %d: %t, %v", before, reads, err)
			}
		}
	}
	for _, text := range []string{"", "short", strings.Repeat(message[1:], 20_000)} {
		if reads, err := ReadsInitrdArgs(strings.NewReader(text)); reads || err != nil {
			t.Errorf("%.20q: %t, %v", text, reads, err)
		}
	}
	bad := errors.New("bad disk")
	if _, err := ReadsInitrdArgs(iotest.ErrReader(bad)); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
}
