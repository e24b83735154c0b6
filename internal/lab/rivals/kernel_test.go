package rivals

import (
	"strings"
	"testing"
)

// init.sh knows all arguments of the rivals.
func TestKernelRivals(t *testing.T) {
	for _, r := range guestRivals() {
		if r.serve == nil && r.disk == nil {
			t.Errorf("%s: nothing has its root", r.name)
		}
		for _, arg := range r.args {
			name, value, _ := strings.Cut(strings.TrimPrefix(arg, "lab."), "=")
			if !strings.Contains(rivalInit, "$lab_"+name) ||
				name == "root" && !strings.Contains(rivalInit, "\n"+value+")\n") {
				t.Errorf("%s: its initramfs does not know %s", r.name, arg)
			}
		}
	}
	if !strings.Contains(rivalInit, "/export/"+squashName+" ") {
		t.Errorf("its initramfs does not know the file %s", squashName)
	}
	if !strings.Contains(mountOptions, "vers=4.1") {
		t.Errorf("NFS is mounted with %s", mountOptions)
	}
}
