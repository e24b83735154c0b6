package fleet

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// Spelling replaces regular expressions because of the agent's size; here it is compared with them.
func TestSpelling(t *testing.T) {
	for name, c := range map[string]struct {
		allows  func(string) bool
		pattern string
		letters string // characters of the random names
	}{
		"name":  {word.Allows, `^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`, "az09AZ._-/ \n"},
		"label": {label.Allows, `^[A-Za-z0-9]([A-Za-z0-9._/-]{0,62}[A-Za-z0-9])?$`, "azAZ09._-/:\n"},
		"open end": {Spelling{Capitals: true, Inner: "_", End: true, Max: 64}.Allows,
			`^[A-Za-z0-9][A-Za-z0-9_]{0,63}$`, "azAZ09_-"},
		"host name": {isHostName, `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`,
			"az09-..A\n"},
		"write limit": {isWriteLimit, `^([1-9][0-9]{0,1}%|100%|[1-9][0-9]{0,12}[kKmMgG]?)$`, "0159%kKG-\n"},
	} {
		want := regexp.MustCompile(c.pattern)
		r := rand.New(rand.NewPCG(1, 2))
		allowed := 0
		for range 40_000 {
			s := drawn(r, c.letters)
			if c.allows(s) != want.MatchString(s) {
				t.Fatalf("%s %q: allowed is %v", name, s, c.allows(s))
			}
			if c.allows(s) {
				allowed++
			}
		}
		if allowed < 100 {
			t.Errorf("%s: only %d of all trials are allowed", name, allowed)
		}
	}
}

// drawn returns a random short word, or one about as long as the longest name, of any of the letters or mostly the
// first.
func drawn(r *rand.Rand, letters string) string {
	n := r.IntN(6)
	if r.IntN(4) == 0 {
		n = 60 + r.IntN(8)
	}
	odd := r.IntN(3)
	var s strings.Builder
	for range n {
		if odd == 0 || r.IntN(60) == 0 {
			s.WriteByte(letters[r.IntN(len(letters))])
		} else {
			s.WriteByte(letters[r.IntN(2)])
		}
	}
	return s.String()
}
