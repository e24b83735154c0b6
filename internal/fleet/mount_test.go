package fleet

import "testing"

// TestMountTakesFstab: lines of real fstab files are accepted unchanged.
func TestMountTakesFstab(t *testing.T) {
	for line, want := range map[string]Mount{
		"//fs1/profiles$ /mnt/p cifs credentials=/etc/c 0 0": {
			"//fs1/profiles$", "/mnt/p", "cifs", "credentials=/etc/c"},
		"10.0.0.1:/home\t/home/\tnfs\trw,hard\t0\t0": {"10.0.0.1:/home", "/home", "nfs", "rw,hard"},
		"fs:/a /srv nfs defaults 0":                  {"fs:/a", "/srv", "nfs", "defaults"},
		"fs:/a /srv nfs defaults 0 0 # the old one":  {"fs:/a", "/srv", "nfs", "defaults"},
		`//fs/Our\040Files /mnt/Our\040Files cifs guest,password=a%b"c 0 0`: {
			"//fs/Our Files", "/mnt/Our Files", "cifs", `guest,password=a%b"c`},
		`fs:/back\134slash /srv/a\043b nfs`:               {`fs:/back\slash`, "/srv/a#b", "nfs", ""},
		"UUID=0aa-1 /data auto nofail 0 2":                {"UUID=0aa-1", "/data", "auto", "nofail"},
		`LABEL="my disk"x /d ext4`:                        {},
		`LABEL="my_disk" /d ext4`:                         {"LABEL=my_disk", "/d", "ext4", ""},
		"[fd00::1]:/x //srv//x nfs4,nfs":                  {"[fd00::1]:/x", "/srv/x", "nfs4,nfs", ""},
		"sshfs#me@fs:/ /mnt/Schüler fuse.sshfs-x _netdev": {"sshfs#me@fs:/", "/mnt/Schüler", "fuse.sshfs-x", "_netdev"},
		"/srv/a /srv/b none bind 0 0":                     {"/srv/a", "/srv/b", "none", "bind"},
	} {
		got, err := ParseMount(line)
		if (err != nil) != (want == Mount{}) || err == nil && got != want {
			t.Errorf("%q: %+v, %v; want %+v", line, got, err, want)
		}
	}
	k := Keeping{Mounts: &[]string{"# homes", "fs:/home /home nfs", "", " # more"}}
	if err := validMounts(k); err != nil || len(k.MountList()) != 1 {
		t.Errorf("comments: %q, %v", k.MountList(), err)
	}
}

// TestSysctlTakesItsFile: lines of sysctl.d(5) files are accepted unchanged.
func TestSysctlTakesItsFile(t *testing.T) {
	lines := []string{"net.ipv4.ip_forward = 1", "-kernel.x=1", "- kernel.x = 1",
		"net/ipv4/conf/enp3s0.200/forwarding=0",
		"net.ipv4.conf.*.rp_filter = 2", "-net.ipv4.conf.lo.rp_filter", "kernel.core_pattern=|/usr/lib/x %P %u",
		"kernel.core_pattern=", "  vm.swappiness\t=\t10  ", "# a comment", "; another", ""}
	if err := validSysctl((Keeping{Sysctl: &lines}).SysctlList()); err != nil {
		t.Error(err)
	}
	if n := len((Keeping{Sysctl: &lines}).SysctlList()); n != len(lines)-3 {
		t.Errorf("%d lines are taken", n)
	}
	for _, bad := range []string{"vm.swappiness", "a b=c", "=1", "vm.swappiness 10", "vm.x=\x01", "vm.x=1\nvm.y=2"} {
		if validSysctl([]string{bad}) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
