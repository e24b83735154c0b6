package nodestate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pando/internal/fleet"
)

// networkDefaults are default options of network mounts by type. An option of the mount's line wins over the same
// option and over its opposite here. The reasons:
//
//	hard: while a server is down programs wait; soft would fail writes that the kernel had accepted
//	timeo=100: retry after 10 s; TCP's default of 60 s would notice the end of an outage late
//	nosuid, nodev: write access to the server must not make somebody root on the nodes
var networkDefaults = map[string][]string{
	"nfs":  {"hard", "timeo=100", "nosuid", "nodev", "noatime"},
	"nfs4": {"hard", "timeo=100", "nosuid", "nodev", "noatime"},
	"cifs": {"hard", "nosuid", "nodev", "noatime"},
	"smb3": {"hard", "nosuid", "nodev", "noatime"},
	"ceph": {"nosuid", "nodev", "noatime"},
}

var otherNetwork = []string{"nosuid", "nodev"}

// opposites maps options to their opposites. The last option of a pair counts.
var opposites = map[string]string{"hard": "soft", "nosuid": "suid", "nodev": "dev", "noatime": "relatime"}

// kernelType returns the type for mount(2). There, nfs means version 3, unless mount.nfs chooses a version.
func kernelType(m fleet.Mount) string {
	if m.Type == "nfs" && !strings.Contains(m.Options, "vers=3") {
		return "nfs4"
	}
	return m.Type
}

// mountOptions returns a mount's options with the defaults added.
func mountOptions(m fleet.Mount) string {
	own := map[string]bool{}
	var out []string
	for o := range strings.SplitSeq(m.Options, ",") {
		if o == "" || o == "nofail" || o == "_netdev" || o == "auto" || o == "noauto" ||
			strings.HasPrefix(o, "x-systemd.") {
			continue // options of fstab(5); units have their own settings for them
		}
		name, _, _ := strings.Cut(o, "=")
		own[name] = true
		out = append(out, o)
	}
	defaults := networkDefaults[m.Type]
	if defaults == nil && m.Network() {
		defaults = otherNetwork
	}
	for _, d := range defaults {
		name, _, _ := strings.Cut(d, "=")
		if !own[name] && !own[opposites[name]] {
			out = append(out, d)
		}
	}
	if kernelType(m) == "nfs4" {
		out = append(out, withoutHelper(m, own)...)
	}
	if len(out) == 0 {
		return "defaults"
	}
	return strings.Join(out, ",")
}

// withoutHelper returns the options that mount.nfs would find out, for images without mount.nfs. The version is
// needed: since util-linux 2.39 mount passes single options to the kernel (fsconfig(2)), which assumes version 3
// until it gets one.
func withoutHelper(m fleet.Mount, own map[string]bool) (out []string) {
	if !own["vers"] && !own["nfsvers"] {
		out = append(out, "vers=4.1") // servers have had it for ten years; without mount.nfs no other version is tried
	}
	if a := serverAddress(m); a != "" && !own["addr"] {
		out = append(out, "addr="+a)
	}
	return out
}

// serverAddress returns the server's address in "10.0.0.1:/dir", "" if the server is a name.
func serverAddress(m fleet.Mount) string {
	host, _, _ := strings.Cut(m.What, ":/")
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return ""
	}
	return a.String()
}

// onDemand reports whether a file system is mounted at its first use: network mounts without the option auto. A
// server that is down then delays only programs that use the mount, and not the boot.
func onDemand(m fleet.Mount) bool {
	return m.Network() && !hasOption(m, "auto") || hasOption(m, "x-systemd.automount")
}

func hasOption(m fleet.Mount, option string) bool {
	return slices.Contains(strings.Split(m.Options, ","), option)
}

// device returns the path in /dev/disk for UUID=, LABEL= and similar, escaped as udev does. Other values are returned
// unchanged.
func device(what string) string {
	tag, value, _ := strings.Cut(what, "=")
	dir := map[string]string{"UUID": "uuid", "LABEL": "label", "PARTUUID": "partuuid", "PARTLABEL": "partlabel",
		"ID": "id"}[tag]
	if dir == "" {
		return what
	}
	var b strings.Builder
	for _, c := range []byte(value) {
		if c >= 0x80 || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("#+-.:=@_", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return "/dev/disk/by-" + dir + "/" + b.String()
}

// inUnit escapes a text for a setting of a unit, where % begins a specifier.
func inUnit(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// mountFiles returns the units of a mount. early: the mount has the node's state, and is ordered before
// local-fs.target. Network mounts do not wait for network-online.target: the network is up already, and
// systemd-tmpfiles, which comes before that target, looks into /home and would deadlock.
func mountFiles(m fleet.Mount, early bool) []fleet.File {
	name, target, order := unitName(m.Where, ".mount"), "local-fs.target", ""
	if m.Network() {
		target, order = "remote-fs.target", "DefaultDependencies=no\nConflicts=umount.target\nBefore=umount.target\n"
	}
	if early {
		target, order = "local-fs.target", order+"Before=local-fs.target\n"
	}
	where := inUnit(m.Where)
	unit := `[Unit]
Description=Pando: ` + where + `
` + order + `
[Mount]
What=` + inUnit(device(m.What)) + `
Where=` + where + `
Type=` + kernelType(m) + `
Options=` + inUnit(mountOptions(m)) + `
TimeoutSec=90
`
	if !early && !onDemand(m) && hasOption(m, "noauto") {
		return []fleet.File{file(unitDir+name, unit)}
	}
	if early || !onDemand(m) {
		return wanted(name, target, unit)
	}
	return append([]fleet.File{file(unitDir+name, unit)}, wanted(unitName(m.Where, ".automount"), target, `[Unit]
Description=Pando: `+where+` when it is looked at

[Automount]
Where=`+where+`
`)...)
}
