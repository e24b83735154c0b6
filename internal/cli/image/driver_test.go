package image

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"pando/internal/build"
	"pando/internal/cmdenv"
)

// TestDriversOfEveryBuild: a node says "build the image again with --driver", however its image was made.
func TestDriversOfEveryBuild(t *testing.T) {
	env := &cmdenv.Env{}
	for _, command := range []func(*cmdenv.Env) *cobra.Command{imageBuild, imageCapture, imageShell} {
		if c := command(env); c.Flags().Lookup("driver") == nil {
			t.Errorf("%s has no --driver", c.Name())
		}
	}
	want := []string{"cxgb4"}
	opt, err := captureFlags{format: "auto", drivers: want}.options("root@pilot", "test")
	if err != nil || !slices.Equal(opt.Drivers, want) {
		t.Errorf("capture: %v, %v", opt.Drivers, err)
	}
	opt = build.Options{}
	shellFlags{drivers: want}.into(&opt)
	if !slices.Equal(opt.Drivers, want) {
		t.Errorf("shell: %v", opt.Drivers)
	}
}
