package fleet

import (
	"strings"
	"testing"
)

func TestParseState(t *testing.T) {
	for text, want := range map[string]State{
		"":                        {},
		"nfs 10.0.0.1:/srv/state": {Kind: StateNetwork, FileSystem: "nfs", What: "10.0.0.1:/srv/state"},
		"nfs fs:/srv vers=4.2,nconnect=4": {Kind: StateNetwork, FileSystem: "nfs", What: "fs:/srv",
			Options: "vers=4.2,nconnect=4"},
		"ceph 10.0.0.1,10.0.0.2:/state name=a": {Kind: StateNetwork, FileSystem: "ceph",
			What: "10.0.0.1,10.0.0.2:/state", Options: "name=a"},
		"directory /mnt/site/state": {Kind: StateDirectory, What: "/mnt/site/state"},
		"disk":                      {Kind: StateDisk, FileSystem: "ext4"},
		"volume 20GB xfs":           {Kind: StateVolume, FileSystem: "xfs", Size: 20_000_000_000 &^ 4095},
		"disk xfs":                  {Kind: StateDisk, FileSystem: "xfs"},
	} {
		if got, err := ParseState(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"nfs", "disk btrfs", "volume", "volume 1MB", "volume xfs", "volume 20XB",
		"disk xfs xfs", "directory", "directory srv", "directory /proc/1", "nfs a:/b c d", "nfs a:/b x'y",
		"swap a:/b", "nfs a:/b%n"} {
		if got, err := ParseState(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
}

func TestParseSwap(t *testing.T) {
	for text, want := range map[string]Swap{"": {Kind: SwapNone}, "none": {Kind: SwapNone}, "zram": {Kind: SwapZram},
		"disk":        {Kind: SwapDisk},
		"volume 4GB":  {Kind: SwapVolume, Size: 4_000_000_000 &^ 4095},
		"volume 1GiB": {Kind: SwapVolume, Size: 1 << 30}} {
		if got, err := ParseSwap(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"volume", "volume 1MB", "volume 2TB", "volume x", "volume 4GB ext4", "zram 4GB",
		"file", "volume -4GB"} {
		if got, err := ParseSwap(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
}

// Kept and mounted paths cannot be system directories or inside each other, and cannot contain text with a meaning for
// systemd or a shell.
func TestKeepingIsRefused(t *testing.T) {
	list := func(s ...string) *[]string { return &s }
	state, volume, quoted := "disk", "volume", "nfs a:/b$(reboot)"
	for _, k := range []Keeping{
		{Persist: list("/var/log")}, // kept nowhere
		{StateOn: &state, Persist: list("/etc")},
		{StateOn: &state, Persist: list("/run/x")},
		{StateOn: &state, Persist: list("var/log")},
		{StateOn: &state, Persist: list("/var/log/")},
		{StateOn: &state, Persist: list("/srv/a b")},
		{StateOn: &state, Persist: list("/srv/$(reboot)")},
		{StateOn: &state, Persist: list("/srv", "/srv/a")},
		{StateOn: &state, Persist: list("/srv/a", "/srv/a")},
		{StateOn: &state, Persist: list("/srv/a"), Mounts: list("a:/b /srv/a nfs")},
		{Mounts: list("a:/b /srv nfs", "c:/d /srv nfs")},
		{Mounts: list("a:/b / nfs")},
		{Users: list("alice")},
		{Users: list("root uid=2000")},
		{Users: list("alice uid=0")},
		{Users: list("alice uid=2000 shell=sh")},
		{Users: list("alice uid=2000", "alice uid=2001")},
		{Users: list("group team uid=2000")},
		{Users: list("alice uid=2000 groups=a;b")},
		{UserKeys: list("../x ssh-ed25519 AAAA")},
		{UserKeys: list("alice")},
		{Sysctl: list("vm.swappiness")},
		{Sysctl: list("a b=c")},
		{Swap: &volume}, // how large?
		{StateOn: &state, Persist: list("file:/etc/shadow")},
		{StateOn: &state, Persist: list("file:etc/app.conf")},
		{StateOn: &state, Persist: list("/srv/a", "file:/srv/a/b")},
		{StateOn: &state, Persist: list("/srv/a", "file:/srv/a")},
		{StateOn: &state, Persist: list("/srv/a/b"), Mounts: list("a:/b /srv/a/b nfs")},
		{StateOn: &state, Persist: list("file:/srv/f"), Mounts: list("a:/b /srv/f nfs")},
		{Mounts: list("a:/b /srv")},
		{Mounts: list("a:/b /srv nfs rw 0 x")},
		{Mounts: list("a:/b /srv nfs rw 0 0 more")},
		{Mounts: list("a:/b /srv/ nfs", "c:/d /srv nfs")},
		{Mounts: list(`a:/b /srv nfs password=\012ExecStart=x`)},
		{Mounts: list(`a:/b\ /srv nfs rw`, `a:/b\134 /mnt nfs`)},
		{StateOn: &quoted, Persist: list("/srv/a")},
		{Mounts: list("/dev/sda1 /srv swap")},
		{Mounts: list("a:/b\nExecStart=x /srv nfs")},
		{Mounts: list("a:/b /srv nfs hard\nX=y")},
	} {
		if err := (Group{Name: "lab", Settings: Settings{Keeping: k}}).Validate(); err == nil {
			t.Errorf("%v %v on %q is taken", k.PersistList(), k.MountList(), k.StateText())
		}
	}
	k := Keeping{
		StateOn: &state,
		Persist: list("/var/log", "/var/lib/containers", "/var/lib/foo-bar_1@x:y", "file:/etc/app.lic", "/etc/issue"),
		Mounts:  list("a:/b /home nfs rw,sec=krb5p"),
	}
	if err := (Group{Name: "lab", Settings: Settings{Keeping: k}}).Validate(); err != nil {
		t.Error(err)
	}
}

// An empty value of a node overrides its group's; an empty value of a group is not set.
func TestSettingsMerge(t *testing.T) {
	none, nfs := "", "nfs a:/b"
	g := Group{Settings: Settings{Keeping: Keeping{StateOn: &nfs, Persist: &[]string{"/srv"}}}}
	o := Settings{Keeping: Keeping{StateOn: &none}}
	of := o.Of(g)
	if of.StateText() != "" || strings.Join(of.PersistList(), " ") != "/srv" || g.StateText() != nfs {
		t.Errorf("%q %v; the group has %q", of.StateText(), of.PersistList(), g.StateText())
	}
	if own := o.Explicit(); len(own) != 1 || own[0].Key != "state_on" {
		t.Errorf("the node has %v of its own", own)
	}
	if k := of.Normal(); k.StateOn != nil || k.Persist == nil {
		t.Errorf("normal: %+v", k)
	}
	if err := o.Drop("state_on"); err != nil || o != (Settings{}) {
		t.Errorf("dropped: %v, %v", o, err)
	}
}
