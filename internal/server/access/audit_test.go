package access

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSecretsAreNotAudited(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"password":"x"}`:                           `{"password":"***"}`,
		`{"a":[{"PrivateKey":"x","name":"y"}]}`:      `{"a":[{"PrivateKey":"***","name":"y"}]}`,
		`{"bmc":{"credentials":{"user":"u","p":1}}}`: `{"bmc":{"credentials":"***"}}`,
		`{"name":"x"`:                                `"not kept: no JSON"`,
		``:                                           ``,
	} {
		if got := withoutSecrets([]byte(in)); got != want {
			t.Errorf("%.60s: %s, want %s", in, got, want)
		}
	}
}

// A long change, such as the import of a room, is recorded in shortened form, with its length and its digest.
func TestLongBodiesAreShortened(t *testing.T) {
	t.Parallel()
	import1 := func(n int, last string) string {
		var nodes []string
		for i := range n {
			nodes = append(nodes,
				fmt.Sprintf(`{"name":"pc%05d","macs":["52:54:00:00:00:01"],"group":"lab","password":"x"}`, i))
		}
		return `{"prune":true,"nodes":[` + strings.Join(nodes, ",") + `],"owns":{"nodes":"` + last + `"}}`
	}
	for _, body := range []string{import1(200, "@lab"), import1(20_000, "@lab"),
		`"` + strings.Repeat("x", auditBody) + `"`,
		`[` + strings.Repeat(`{"a":[[[[1,2],[3,4]]]],"b":"`+strings.Repeat("y", 90)+`"},`, 5000) + `0]`} {
		got := withoutSecrets([]byte(body))
		var kept struct {
			Bytes     int
			SHA256    string
			Shortened any
		}
		if err := json.Unmarshal([]byte(got), &kept); err != nil || len(got) > auditBody || kept.Bytes < auditBody/2 ||
			len(kept.SHA256) != 64 || kept.Shortened == nil {
			t.Errorf("%.60s of %d bytes: %s (%v)", body, len(body), got, err)
		}
		if strings.HasPrefix(body, `{"prune"`) && (!strings.Contains(got, `"pc00000"`) ||
			!strings.Contains(got, "more") || !strings.Contains(got, `"@lab"`) || strings.Contains(got, `"x"`)) {
			t.Errorf("of an import this is kept: %s", got)
		}
	}
	if withoutSecrets([]byte(import1(200, "@lab"))) == withoutSecrets([]byte(import1(200, "@lab2"))) {
		t.Error("two imports cannot be told apart")
	}
}
