package access

import (
	"strings"
	"testing"
)

// A token for some groups cannot change anything through a route about all groups.
func TestRoutesForAllGroupsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, r := range reachesAll {
		if method, path, _ := strings.Cut(r, " "); IsChange(method, path) {
			t.Errorf("%s changes something for all groups", r)
		}
	}
}
