package initrd

import (
	"strings"
	"testing"

	"pando/internal/extension"
)

// The unit of systemd-sysext starts the units that an extension enables. Only a boot with extensions has the drop-in.
func TestExtensionFiles(t *testing.T) {
	if files := extensionFiles(nil); len(files) != 0 {
		t.Errorf("without extensions: %v", files)
	}
	files := extensionFiles([]extension.Attached{{Units: []string{"a.service", "b.timer"}}, {}})
	text := string(files[1].Data)
	if files[0].Target != "/usr/lib/systemd/system/systemd-sysext.service" ||
		strings.Count(text, "daemon-reload") != 1 ||
		!strings.Contains(text, "start b.timer\n") {
		t.Errorf("%+v\n%s", files[0], text)
	}
}
