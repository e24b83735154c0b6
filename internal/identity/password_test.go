package identity

import (
	"strings"
	"testing"
)

func TestPassword(t *testing.T) {
	const password = "correct horse battery"
	one, err := HashPassword(password)
	if err != nil {
		t.Fatal(err)
	}
	two, err := HashPassword(password)
	if err != nil || one == two || strings.Contains(one, "horse") {
		t.Errorf("%s and %s: no salt, or the password itself (%v)", one, two, err)
	}
	if !CheckPassword(one, password) || !CheckPassword(two, password) {
		t.Error("the right password was refused")
	}
	for _, wrong := range []string{"", "correct horse batterx", password + "\x00", strings.ToUpper(password)} {
		if CheckPassword(one, wrong) {
			t.Errorf("%q was taken", wrong)
		}
	}
	for _, hash := range []string{"", "$", "$argon2id$v=19$m=1,t=1,p=1$$", one[:len(one)-4], one + "AA",
		strings.Replace(one, "m=47104", "m=8", 1)} {
		if CheckPassword(hash, password) {
			t.Errorf("a password was taken for hash %q", hash)
		}
	}
	if CheckPassword("", "") {
		t.Error("no password was taken for no hash")
	}
}

func TestPasswordLengths(t *testing.T) {
	for _, p := range []string{"", "1234567", strings.Repeat("x", passwordMost+1)} {
		if _, err := HashPassword(p); err == nil {
			t.Errorf("a password of %d bytes was taken", len(p))
		}
	}
}

func FuzzParseHash(f *testing.F) {
	f.Add("$argon2id$v=19$m=47104,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAA")
	f.Fuzz(func(t *testing.T, hash string) {
		if salt, sum, err := parseHash(hash); err == nil && (len(salt) != saltBytes || len(sum) != hashBytes) {
			t.Fatalf("%q: salt of %d bytes, sum of %d", hash, len(salt), len(sum))
		}
	})
}
