package identity

import (
	"bytes"
	"errors"
	"testing"
)

func TestSealedSecrets(t *testing.T) {
	k, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sealed := k.Seal("power node pc001", []byte("open sesame"))
	if bytes.Contains(sealed, []byte("sesame")) ||
		bytes.Equal(sealed, k.Seal("power node pc001", []byte("open sesame"))) {
		t.Fatal("the secret can be read, or two are alike")
	}
	if got, err := k.Open("power node pc001", sealed); err != nil || string(got) != "open sesame" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, try := range map[string]func() ([]byte, error){
		"another use":  func() ([]byte, error) { return k.Open("power node pc002", sealed) },
		"another site": func() ([]byte, error) { return other.Open("power node pc001", sealed) },
		"cut":          func() ([]byte, error) { return k.Open("power node pc001", sealed[:5]) },
		"changed": func() ([]byte, error) {
			bad := bytes.Clone(sealed)
			bad[len(bad)-1] ^= 1
			return k.Open("power node pc001", bad)
		},
		"another version": func() ([]byte, error) {
			return k.Open("power node "+
				"pc001", append([]byte{2}, sealed[1:]...))
		},
	} {
		if got, err := try(); !errors.Is(err, ErrSealed) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
