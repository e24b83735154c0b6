package access

import (
	"strings"
	"testing"
)

// A token that is limited to some groups changes nothing by a route that is about all of them.
func TestRoutesForAllGroupsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, r := range reachesAll {
		if method, path, _ := strings.Cut(r, " "); IsChange(method, path) {
			t.Errorf("%s changes something for all groups", r)
		}
	}
}
