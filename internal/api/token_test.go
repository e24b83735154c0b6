package api

import (
	"crypto/ed25519"
	"testing"

	"pgregory.net/rapid"
)

func TestTokenRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9_-]{1,60}`).Draw(t, "secret")
		key := ed25519.PublicKey(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		got, pinned, err := ParseToken(FormatToken(secret, key) + "\n")
		if err != nil || got != secret || !pinned.Equal(key) {
			t.Fatalf("%q %v %v", got, pinned, err)
		}
	})
}

func TestTokenRefused(t *testing.T) {
	for _, s := range []string{"", "pando_", "pando_.", "secret.AAAA", "pando_secret.AAAA", "pando_secret",
		"pando_.9sUICF0ADT8dlYPirEJ1qCzeUOS6Qaaz0WPaJXj9PZ8"} {
		if _, _, err := ParseToken(s); err == nil {
			t.Errorf("token %q was taken", s)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("pando_secret.9sUICF0ADT8dlYPirEJ1qCzeUOS6Qaaz0WPaJXj9PZ8")
	f.Add("pando_.")
	f.Fuzz(func(t *testing.T, s string) {
		secret, key, err := ParseToken(s)
		if err == nil && (secret == "" || len(key) != ed25519.PublicKeySize) {
			t.Fatalf("%q gives %q and %d bytes", s, secret, len(key))
		}
	})
}
