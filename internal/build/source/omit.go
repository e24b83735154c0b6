package source

import (
	"fmt"
	"strings"
)

// omission is what a copy of a machine leaves out, and why. Patterns are rsync's: a leading slash is the root of
// the tree, and what ends in /* keeps its directory.
type omission struct {
	what     string
	patterns []string
}

// omissions is what must not travel from a machine into an image, which every node boots and everybody on the
// network can read. The order is that of the report.
func omissions() []omission {
	return []omission{
		{
			"what the kernel and a running system have",
			[]string{
				"/proc/*",
				"/sys/*",
				"/dev/*",
				"/run/*",
				"/var/run/*",
				"/tmp/*",
				"/var/tmp/*",
				"/mnt/*",
				"/media/*",
				"/lost+found",
				"/swapfile",
				"/swap.img",
				"/swap/*",
			},
		},
		{
			"identities of the machine",
			[]string{
				"/etc/machine-id",
				"/var/lib/dbus/machine-id",
				"/etc/hostname",
				"/etc/ssh/ssh_host_*",
				"/var/lib/systemd/random-seed",
				"/var/lib/systemd/credential.secret",
				"/etc/iscsi/initiatorname.iscsi",
				"/etc/nvme/hostid",
				"/etc/nvme/hostnqn",
				"/var/lib/tailscale/*",
				"/etc/udev/rules.d/70-persistent-net.rules",
				"/var/lib/cloud/*",
			},
		},
		{
			"secrets",
			[]string{
				"/etc/krb5.keytab",
				"/var/lib/sss/db/*",
				"/var/lib/sss/secrets/*",
				"/var/lib/samba/private/*",
				"/etc/NetworkManager/system-connections/*",
				"/var/lib/NetworkManager/*",
				"/etc/wireguard/*",
				"/etc/openvpn/*",
				"/etc/ipsec.secrets",
				"/etc/ssl/private/*",
				"/etc/pki/tls/private/*",
				"/etc/letsencrypt/*",
				"/var/lib/bluetooth/*",
				"/var/lib/iwd/*",
				"/etc/wpa_supplicant/*.conf",
				"/etc/crypttab",
				"/etc/cups/ssl/*",
				"/etc/rndc.key",
				"/etc/bind/rndc.key",
				"/root/.ssh/id_*",
				"/root/.gnupg",
				"/root/.aws",
				"/root/.kube",
				"/root/.docker",
				"/root/.*_history",
				"/var/lib/pando",
			},
		},
		{"people's files", []string{"/home/*"}},
		{
			"containers and virtual machines",
			[]string{
				"/var/lib/docker/*",
				"/var/lib/containers/*",
				"/var/lib/containerd/*",
				"/var/lib/lxc/*",
				"/var/lib/lxd/*",
				"/var/lib/libvirt/images/*",
				"/var/lib/machines/*",
			},
		},
		{
			"logs, caches and spools",
			[]string{
				"/var/log/**",
				"/var/cache/apt/*.bin",
				"/var/cache/apt/archives/*.deb",
				"/var/cache/apt/archives/partial/*",
				"/var/lib/apt/lists/*",
				"/var/cache/dnf/*",
				"/var/cache/yum/*",
				"/var/cache/zypp/*",
				"/var/cache/pacman/pkg/*",
				"/var/cache/PackageKit/*",
				"/var/cache/ldconfig/aux-cache",
				"/var/crash/*",
				"/var/lib/systemd/coredump/*",
				"/var/spool/mail/*",
				"/var/mail/*",
				"/var/spool/cups/*",
				"/var/backups/*",
				"/root/.cache",
				"/boot/initrd*",
				"/boot/initramfs-*",
				"/boot/efi/*",
				"/boot/loader/*",
				"/etc/*-",
			},
		},
	}
}

// Choice changes which files a copy leaves out.
type Choice struct {
	Exclude []string // left out, too
	With    []string // taken, with what is below, though it would be left out
}

// rules are rsync's filter rules; the first that matches decides. Directories of logs are kept: programs write into
// them.
func (c Choice) rules() []string {
	var out []string
	for _, p := range c.With {
		p = strings.TrimRight(p, "/*")
		for i := 1; i < len(p); i++ { // the way there
			if p[i] == '/' {
				out = append(out, "+ "+p[:i]+"/")
			}
		}
		out = append(out, "+ "+p, "+ "+p+"/***")
	}
	for _, p := range c.Exclude {
		out = append(out, "- "+p)
	}
	out = append(out, "+ /var/log/**/")
	for _, o := range omissions() {
		for _, p := range o.patterns {
			out = append(out, "- "+p)
		}
	}
	return out
}

// check refuses patterns that would not mean what they say.
func (c Choice) check() error {
	for _, p := range append(append([]string{}, c.Exclude...), c.With...) {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\n\x00") || p == "/" {
			return fmt.Errorf("%q: want a path from the root of the machine on, such as /srv/data", p)
		}
	}
	return nil
}

// notes reports what was left out, by kind, from the count of each pattern's matches. Patterns of the first kind are
// not reported.
func notes(hidden map[string]int) []string {
	var out []string
	for _, o := range omissions()[1:] {
		var found []string
		for _, p := range o.patterns {
			if hidden[p] > 0 {
				found = append(found, p)
			}
			delete(hidden, p)
		}
		if len(found) > 0 {
			out = append(out, "left out, "+o.what+": "+strings.Join(found, " "))
		}
	}
	return out
}
