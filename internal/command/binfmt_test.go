package command

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Errors if the programs of an image cannot run. The files have the kernel's format.
func TestRunsBy(t *testing.T) {
	other, name := "arm64", "qemu-aarch64"
	if runtime.GOARCH == other {
		other, name = "amd64", "qemu-x86_64"
	}
	const interpreter = "\ninterpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\n"
	for _, tt := range []struct{ entry, want string }{
		{"enabled" + interpreter + "flags: POCF\noffset 0\nmagic 7f454c46\n", ""},
		{"disabled" + interpreter + "flags: POCF\noffset 0\n", "switched off"},
		{"enabled" + interpreter + "flags: OC\noffset 0\n", "without the flag F"},
		{"", "qemu-user-static"},
	} {
		dir := t.TempDir()
		if tt.entry != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(tt.entry), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		err := runsBy(dir, other)
		var foreign *ForeignError
		if tt.want == "" && err != nil ||
			tt.want != "" && (!errors.As(err, &foreign) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.entry, err, tt.want)
		}
		if err := runsBy(dir, runtime.GOARCH); err != nil {
			t.Errorf("its own programs: %v", err)
		}
	}
}
