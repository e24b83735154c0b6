package identity

import (
	"bytes"
	"testing"
)

// What is sealed opens under its own name with its own key, and not otherwise; it looks different each time.
func TestSealSecret(t *testing.T) {
	k, other := Keys{Secret: [32]byte{1}}, Keys{Secret: [32]byte{2}}
	value := []byte("the value")
	sealed, err := k.SealSecret("munge", value)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.SealSecret("munge", value)
	if err != nil || bytes.Equal(sealed, again) || bytes.Contains(sealed, value) {
		t.Errorf("sealed %x and %x, %v", sealed, again, err)
	}
	if got, err := k.OpenSecret("munge", sealed); err != nil || !bytes.Equal(got, value) {
		t.Errorf("opened %q, %v", got, err)
	}
	if got, err := k.OpenSecret("krb5", sealed); err == nil {
		t.Errorf("under another name it opens: %q", got)
	}
	if got, err := other.OpenSecret("munge", sealed); err == nil {
		t.Errorf("by another key it opens: %q", got)
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if got, err := k.OpenSecret("munge", bad); err == nil {
			t.Errorf("with byte %d changed it opens: %q", i, got)
		}
	}
	if got, err := k.OpenSecret("munge", nil); err == nil {
		t.Errorf("nothing opens: %q", got)
	}
}
