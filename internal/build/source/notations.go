package source

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// otherNotations adds attributes that an archive stores in another notation: GNU tar with --acls and --selinux, star,
// and libarchive's bsdtar.
func (a *attributes) otherNotations(records map[string]string) {
	add := func(name, value string) {
		if !slices.ContainsFunc(a.xattrs, func(x xattr) bool { return x.name == name }) {
			a.xattrs = append(a.xattrs, xattr{name, value})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(records)) {
		value := records[key]
		switch {
		case strings.HasPrefix(key, "LIBARCHIVE.xattr."):
			name, err := url.PathUnescape(strings.TrimPrefix(key, "LIBARCHIVE.xattr."))
			raw, err2 := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
			if err == nil && err2 == nil {
				add(name, string(raw))
			}
		case key == "RHT.security.selinux":
			add("security.selinux", strings.TrimRight(value, "\x00")+"\x00")
		case key == "SCHILY.acl.access", key == "SCHILY.acl.default":
			name := "system.posix_acl_" + strings.TrimPrefix(key, "SCHILY.acl.")
			if _, there := records[xattrPrefix+name]; there {
				continue
			}
			acl, err := aclOf(value)
			if err != nil {
				a.lost = append(a.lost, key)
			} else if acl != "" {
				add(name, acl)
			}
		case key == "SCHILY.acl.ace":
			a.lost = append(a.lost, key)
		}
	}
}

// Tags of POSIX ACL entries (Linux, include/uapi/linux/posix_acl.h), and the ID of entries that have none.
const (
	aclUserObj, aclUser, aclGroupObj, aclGroup, aclMask, aclOther = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20

	aclNoID = 0xffffffff
)

type aclEntry struct {
	tag, perm uint16
	id        uint32
}

// aclOf converts the text of a POSIX ACL, such as "user::rwx,user:lisa:r-x:1001,group::r-x,other::---", into the
// attribute; "" if it says no more than the mode. An account without its number is an error: only the machine of the
// archive knows its number.
func aclOf(text string) (string, error) {
	var entries []aclEntry
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		e, err := aclEntryOf(strings.Split(line, ":"))
		if err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
		entries = append(entries, e)
	}
	if len(entries) <= 3 {
		return "", nil
	}
	slices.SortFunc(entries, func(a, b aclEntry) int {
		return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.id, b.id))
	})
	out := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		out = binary.LittleEndian.AppendUint16(out, e.tag)
		out = binary.LittleEndian.AppendUint16(out, e.perm)
		out = binary.LittleEndian.AppendUint32(out, e.id)
	}
	return string(out), nil
}

func aclEntryOf(f []string) (aclEntry, error) {
	if len(f) == 2 && (f[0] == "mask" || f[0] == "other") { // star omits the empty qualifier
		f = []string{f[0], "", f[1]}
	}
	tags := map[string][2]uint16{
		"user": {aclUserObj, aclUser}, "u": {aclUserObj, aclUser}, "group": {aclGroupObj, aclGroup},
		"g": {aclGroupObj, aclGroup}, "mask": {aclMask}, "m": {aclMask}, "other": {aclOther}, "o": {aclOther},
	}
	if len(f) < 3 || tags[f[0]] == [2]uint16{} {
		return aclEntry{}, errors.New("not an ACL entry")
	}
	e := aclEntry{tag: tags[f[0]][0], id: aclNoID}
	if f[1] != "" {
		number := f[1]
		if len(f) > 3 {
			number = f[3]
		}
		id, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return e, errors.New("an account without a numeric ID")
		}
		e.tag, e.id = tags[f[0]][1], uint32(id)
	}
	for _, c := range f[2] {
		switch c {
		case 'r':
			e.perm |= 4
		case 'w':
			e.perm |= 2
		case 'x':
			e.perm |= 1
		}
	}
	return e, nil
}
