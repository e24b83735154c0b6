package access

import (
	"strings"
	"testing"
)

func TestSecretsAreNotAudited(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"password":"x"}`:                           `{"password":"***"}`,
		`{"a":[{"PrivateKey":"x","name":"y"}]}`:      `{"a":[{"PrivateKey":"***","name":"y"}]}`,
		`{"bmc":{"credentials":{"user":"u","p":1}}}`: `{"bmc":{"credentials":"***"}}`,
		`{"name":"x"`:                                `"not kept: longer than can be kept, or no JSON"`,
		``:                                           ``,
		`"` + strings.Repeat("x", auditBody) + `"`: `"not kept: longer than can be kept, or no JSON"`,
	} {
		if got := withoutSecrets([]byte(in)); got != want {
			t.Errorf("%.60s: %s, want %s", in, got, want)
		}
	}
}
