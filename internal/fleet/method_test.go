package fleet

import "testing"

// The chosen method depends on what changes, and comes with its reason.
func TestChooseMethod(t *testing.T) {
	same := Change{Architecture: "amd64", Running: 257, Next: 257}
	with := func(change func(*Change)) Change { c := same; change(&c); return c }
	for name, c := range map[string]struct {
		ask  BootMethod
		c    Change
		want BootMethod
		why  string
	}{
		"nothing said": {"", same, MethodReboot, "as was asked for"},
		"reboot":       {MethodReboot, same, MethodReboot, "as was asked for"},
		"kexec":        {MethodKexec, same, MethodKexec, "as was asked for"},
		"soft":         {MethodSoftReboot, same, MethodSoftReboot, "as was asked for"},
		"soft, kernel": {MethodSoftReboot, with(func(c *Change) { c.Kernel = true }), MethodReboot,
			"no soft-reboot: the kernel or its drivers change"},
		"auto": {MethodAuto, same, MethodSoftReboot, "the kernel stays as it is"},
		"auto, kernel": {MethodAuto, with(func(c *Change) { c.Kernel = true }), MethodKexec, "the kernel or its " +
			"drivers change"},
		"auto, arguments": {MethodAuto, with(func(c *Change) { c.Args = true }), MethodKexec, "the kernel " +
			"arguments change"},
		"auto, old systemd": {MethodAuto, with(func(c *Change) { c.Running = 252 }), MethodKexec, "systemd 252 " +
			"runs, and a soft reboot needs 254"},
		"auto, first systemd": {MethodAuto, with(func(c *Change) { c.Running, c.Next = 254, 254 }), MethodSoftReboot,
			"the kernel stays as it is"},
		"auto, older next": {MethodAuto, with(func(c *Change) { c.Next = 253 }), MethodKexec, "the next " +
			"version has systemd 253, and a soft reboot needs 254"},
		"auto, systemd?": {MethodAuto, with(func(c *Change) { c.Next = 0 }), MethodKexec, "it is not known " +
			"which systemd the versions have"},
		"auto, state": {MethodAuto, with(func(c *Change) {
			c.Keeps = "directories on a " +
				"volume"
		}), MethodKexec, "the node has directories on a volume, which a soft reboot does not hand over"},
		"auto, cache": {MethodAuto, with(func(c *Change) { c.Cache = true }), MethodKexec, "the group " +
			"keeps a cache on a disk, which two block daemons cannot share"},
		"auto, agent": {MethodAuto, with(func(c *Change) { c.Agent = true }), MethodKexec, "the node's " +
			"program is of another release than the server's"},
		"auto, arm64": {MethodAuto, with(func(c *Change) { c.Architecture = "arm64" }), MethodReboot,
			"without firmware it was not tried on arm64"},
		"auto, arm64, kernel": {MethodAuto, with(func(c *Change) { c.Architecture, c.Kernel = "arm64", true }),
			MethodReboot, "without firmware it was not tried on arm64"},
		"kexec, whatever else": {MethodKexec, Change{}, MethodKexec, "as was asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, why := c.ask.Choose(c.c); got != c.want || why != c.why {
				t.Errorf("%s: %q", got, why)
			}
		})
	}
}

func TestSystemdOf(t *testing.T) {
	for version, want := range map[string]int{"257.8-1~deb13u1": 257, "252.39-1~deb12u1": 252, "254": 254, "": 0,
		"v1": 0} {
		if got := SystemdOf(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}

func TestMethodsThatThereAre(t *testing.T) {
	for _, m := range append(BootMethods(), "") {
		if err := m.Validate(); err != nil {
			t.Error(err)
		}
	}
	if BootMethod("warm").Validate() == nil {
		t.Error("warm is taken")
	}
}
