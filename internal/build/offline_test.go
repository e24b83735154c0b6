package build

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"pando/internal/command"
)

// TestBuildWithoutInternet: the first line of the error of an offline build says that it is offline and what to do.
// Other errors, also those of a server that was reached, do not change.
func TestBuildWithoutInternet(t *testing.T) {
	apt := func(lines ...string) error {
		return fmt.Errorf("build image: %w",
			&command.Error{Program: "mmdebstrap", Status: "exit status 25", Tail: lines})
	}
	for name, tt := range map[string]struct {
		err        error
		recipe     bool
		host, ways string
	}{
		"no DNS": {apt("I: running apt-get update...", "W: Failed to fetch http://mirror.example.org/debian/dists/"+
			"bookworm/InRelease  Temporary failure resolving 'mirror.example.org'", "E: apt-get update failed"), true,
			"mirror.example.org", "mirrors:"},
		"no route": {apt("Err:1 http://mirror.example.org/debian bookworm InRelease",
			"  Cannot initiate the connection to mirror.example.org:80 (2001:db8::644). - connect (101: Network is "+
				"unreachable)"),
			true, "mirror.example.org", "image pull"},
		"no answer": {apt("  Could not connect to mirror.example.org:80 (192.0.2.132), connection timed out"), true,
			"mirror.example.org", "image pull"},
		"a hook": {apt("curl: (6) Could not resolve host: example.org"), true, "example.org", "mirrors:"},
		"a registry": {fmt.Errorf("pull: %w", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host",
			Name: "registry.example.org"}}), false, "registry.example.org", "registry in your network"},
		"a package that is not there": {apt("E: Unable to locate package nosuch"), true, "", ""},
		"refused":                     {errors.New("GET https://hub.example.org/v2/: 401 Unauthorized"), false, "", ""},
	} {
		got := offline(tt.err, tt.recipe)
		first, rest, _ := strings.Cut(got.Error(), "\n")
		if tt.host == "" {
			if got != tt.err {
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		if !strings.Contains(first, "does not reach "+tt.host) || !strings.Contains(first, tt.ways) ||
			!strings.Contains(first, "pando image pull") || rest != tt.err.Error() || !errors.Is(got, tt.err) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
