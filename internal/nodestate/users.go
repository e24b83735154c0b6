package nodestate

import (
	"fmt"
	"strings"

	"pando/internal/fleet"
)

// userFiles returns the units that make the node's users with the image's systemd-sysusers, before other services
// start. A home directory below a mount is not made: the server of the mount provides it.
func userFiles(k fleet.Keeping) []fleet.File {
	var users, homes strings.Builder
	for _, line := range k.UserList() {
		u, err := fleet.ParseUser(line)
		switch {
		case err != nil:
			continue
		case u.IsGroup:
			fmt.Fprintf(&users, "g %s %d\n", u.Name, u.ID)
			continue
		}
		fmt.Fprintf(&users, "g %[1]s %[2]d\nu %[1]s %[2]d:%[2]d \"\" %[3]s %[4]s\n", u.Name, u.ID, u.Home, u.Shell)
		for g := range strings.SplitSeq(u.Groups, ",") {
			if g != "" {
				fmt.Fprintf(&users, "m %s %s\n", u.Name, g)
			}
		}
		if !mountedAbove(k, u.Home) {
			fmt.Fprintf(&homes, "C %[1]s 0700 %[2]s %[2]s - /etc/skel\nz %[1]s 0700 %[2]s %[2]s -\n", u.Home, u.Name)
		}
	}
	if users.Len() == 0 {
		return nil
	}
	const units = ownDir + "users.conf"
	return append(
		append(
			wanted("pando-users.service", "sysinit.target", userService),
			file(units, users.String()),
			file(ownDir+"homes.conf", homes.String()),
		),
		userKeys(k)...)
}

const userService = `[Unit]
Description=Pando: users
DefaultDependencies=no
After=local-fs.target systemd-sysusers.service
Before=sysinit.target systemd-tmpfiles-setup.service shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=systemd-sysusers /run/pando/users.conf
ExecStart=systemd-tmpfiles --create /run/pando/homes.conf
`

// userKeys returns files that make sshd also read keys outside of home directories, which may be on a server that is
// down.
func userKeys(k fleet.Keeping) []fleet.File {
	var names []string
	keys := map[string]string{}
	for _, line := range k.UserKeyList() {
		name, key := fleet.CutUserKey(line)
		if keys[name] == "" {
			names = append(names, name)
		}
		keys[name] += key + "\n"
	}
	if len(names) == 0 {
		return nil
	}
	out := []fleet.File{
		file(
			"/etc/ssh/sshd_config.d/10-pando-users.conf",
			"AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/authorized_keys.d/%u\n",
		),
	}
	for _, n := range names {
		out = append(out, file("/etc/ssh/authorized_keys.d/"+n, keys[n]))
	}
	return out
}

func mountedAbove(k fleet.Keeping, dir string) bool {
	for _, line := range k.MountList() {
		m, err := fleet.ParseMount(line)
		if err == nil && (dir == m.Where || strings.HasPrefix(dir, m.Where+"/")) {
			return true
		}
	}
	return false
}
