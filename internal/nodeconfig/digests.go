package nodeconfig

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"pando/internal/fleet"
)

// Digests returns digests of the content of config files, by path. They are keyed (HMAC), so that the registry does not
// help to guess secrets.
func (c *Renderer) Digests(files []fleet.File) map[string]string {
	out := make(map[string]string, len(files))
	key := c.Keys.ConfigKey()
	for _, f := range files {
		h := hmac.New(sha256.New, key)
		fmt.Fprintf(h, "%s\n%o %s %d\n", f.Path, f.Mode, f.Owner, len(f.Data))
		h.Write(f.Data)
		out[f.Path] = hex.EncodeToString(h.Sum(nil)[:8])
	}
	return out
}

// Changes compares the files of a running boot with those that the node would get now: old lists files that are new or
// differ, gone lists files that are no longer declared.
func Changes(has, gets map[string]string) (old, gone []string) {
	for _, path := range slices.Sorted(maps.Keys(gets)) {
		if has[path] != gets[path] {
			old = append(old, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(has)) {
		if _, still := gets[path]; !still {
			gone = append(gone, path)
		}
	}
	return old, gone
}
