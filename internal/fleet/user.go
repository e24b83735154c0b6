package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// User is a local user or group of a node.
type User struct {
	Name    string
	ID      int    // UID of the user, or GID of the group
	IsGroup bool   // a group without a user
	Groups  string // further groups of the user, separated by commas
	Shell   string
	Home    string
}

var userName = Spelling{Inner: "._-", Max: 32}

// ParseUser parses "NAME uid=2000 [groups=sudo,video] [shell=/bin/bash] [home=/home/NAME]", or "group NAME gid=3000".
func ParseUser(line string) (User, error) {
	f := strings.Fields(line)
	u := User{Shell: "/bin/bash"}
	if len(f) > 0 && f[0] == "group" {
		u.IsGroup, f = true, f[1:]
	}
	if len(f) == 0 || !userName.Allows(f[0]) || f[0] == "root" {
		return u, fmt.Errorf(
			"user %.80q: want 'NAME uid=2000 [groups=A,B] [shell=/bin/bash] [home=/DIR]', or 'group NAME gid=3000'",
			line,
		)
	}
	u.Name, u.Home = f[0], "/home/"+f[0]
	for _, word := range f[1:] {
		if err := u.set(word); err != nil {
			return u, fmt.Errorf("user %s: %w", u.Name, err)
		}
	}
	if u.ID == 0 {
		return u, fmt.Errorf(
			"user %s: give a number, uid= or gid=, so that files belong to the same one on every node",
			u.Name,
		)
	}
	return u, nil
}

func (u *User) set(word string) error {
	key, value, _ := strings.Cut(word, "=")
	switch {
	case key == "uid" && !u.IsGroup, key == "gid" && u.IsGroup:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1000 || n > 1<<31-2 || n == 65534 || n == 65535 {
			return fmt.Errorf("%s: want a number of 1000 or more", word)
		}
		u.ID = n
	case key == "groups" && !u.IsGroup:
		for g := range strings.SplitSeq(value, ",") {
			if !userName.Allows(g) {
				return fmt.Errorf("%q is no name of a group", g)
			}
		}
		u.Groups = value
	case key == "shell" && !u.IsGroup:
		u.Shell = value
		return validPlace(value)
	case key == "home" && !u.IsGroup:
		u.Home = value
		return validPlace(value)
	default:
		return fmt.Errorf("%q is not known here", word)
	}
	return nil
}

func validUsers(k Keeping) error {
	known := map[string]bool{}
	for _, line := range k.UserList() {
		u, err := ParseUser(line)
		if err != nil {
			return err
		}
		if known[u.Name] {
			return fmt.Errorf("user %s is there twice", u.Name)
		}
		known[u.Name] = true
	}
	for _, line := range k.UserKeyList() {
		name, key := CutUserKey(line)
		if !userName.Allows(name) || isComment(key, "#") {
			return fmt.Errorf("user key %.40q: want 'NAME ssh-ed25519 AAAA...'", line)
		}
		if err := ValidKeyLine(key); err != nil {
			return err
		}
	}
	return nil
}

// sysctlKey is a path below /proc/sys, with dots or slashes, and with patterns (sysctl.d(5)).
var sysctlKey = Spelling{Capitals: true, Inner: "._/-*?[]!:@+", End: true, Max: 255}

func validSysctl(list []string) error {
	for _, s := range list {
		key, value, ok := strings.Cut(s, "=")
		key, minus := strings.CutPrefix(strings.TrimSpace(key), "-") // it may fail, or has no value: left alone
		if !ok && !minus || !sysctlKey.Allows(strings.TrimSpace(key)) || len(value) > 256 ||
			!printable(strings.TrimSpace(value)) {
			return fmt.Errorf("sysctl %q: want a line of sysctl.d, KEY = VALUE, such as vm.swappiness=10", s)
		}
	}
	return nil
}

// UserList returns users and groups as declared.
func (k Keeping) UserList() []string { return ValueOf(k.Users) }

// UserKeyList returns ssh keys, each with its user before it, without comments.
func (k Keeping) UserKeyList() []string {
	return slices.DeleteFunc(slices.Clone(ValueOf(k.UserKeys)), func(s string) bool { return isComment(s, "#") })
}

// SysctlList returns the kernel settings, without comments.
func (k Keeping) SysctlList() []string {
	return slices.DeleteFunc(slices.Clone(ValueOf(k.Sysctl)), func(s string) bool { return isComment(s, "#;") })
}
