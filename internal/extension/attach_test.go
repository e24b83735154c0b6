package extension

import (
	"runtime"
	"strings"
	"testing"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/problem"
)

// An extension fits if it was built for the running version, with the assigned name and for this architecture.
func TestFitsHere(t *testing.T) {
	base, other := fleet.Digest(chunk.Sum([]byte("a")).String()), fleet.Digest(chunk.Sum([]byte("b")).String())
	e := fleet.Extension{Name: "tools", Version: other}
	good := image.Manifest{Architecture: runtime.GOARCH, Extends: &image.Extends{Name: "tools", Base: base}}
	if err := fitsHere(good, e, base); err != nil {
		t.Error(err)
	}
	err := fitsHere(good, e, other)
	if err == nil || !strings.Contains(problem.HintOf(err), "pando image extend IMAGE@"+string(other)+" --name tools") {
		t.Errorf("over another version: %v, hint %q", err, problem.HintOf(err))
	}
	for what, bad := range map[string]image.Manifest{
		"an image":        {Architecture: runtime.GOARCH},
		"another name":    {Architecture: runtime.GOARCH, Extends: &image.Extends{Name: "other", Base: base}},
		"another machine": {Architecture: "sparc", Extends: &image.Extends{Name: "tools", Base: base}},
	} {
		if fitsHere(bad, e, base) == nil {
			t.Errorf("%s fits", what)
		}
	}
}
