package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Keeping is what a group says of what its nodes keep, mount and lay over their root, or a node of itself. Each is
// a whole value; nil: nothing was said.
type Keeping struct {
	WriteLayer *string   `json:"write_layer,omitempty"` // what takes the writes to the root: see ParseWriteLayer
	StateOn    *string   `json:"state_on,omitempty"`    // where persistent directories are kept: see ParseState
	Persist    *[]string `json:"persist,omitempty"`     // the directories, and files: see ParsePersist
	Mounts     *[]string `json:"mounts,omitempty"`      // file systems to mount, as lines of fstab(5): see ParseMount
	Swap       *string   `json:"swap,omitempty"`        // swap space: see ParseSwap
	Users      *[]string `json:"users,omitempty"`       // local users and groups: see ParseUser
	UserKeys   *[]string `json:"user_keys,omitempty"`   // ssh keys of users, "NAME ssh-ed25519 AAAA..."
	Sysctl     *[]string `json:"sysctl,omitempty"`      // "KEY=VALUE", after the defaults for nodes

	// programs laid over /usr and /opt: "NAME", "NAME:TAG" or "NAME@sha256:..."
	Extensions *[]string `json:"extensions,omitempty"`
}

// The names of these settings.
const (
	SettingWriteLayer = "write_layer"
	SettingStateOn    = "state_on"
	SettingPersist    = "persist"
	SettingMounts     = "mounts"
	SettingSwap       = "swap"
	SettingUsers      = "users"
	SettingUserKeys   = "user_keys"
	SettingSysctl     = "sysctl"

	SettingExtensions = "extensions"
)

// KeepingField is one setting of a Keeping: one of Text and List points at it.
type KeepingField struct {
	Name string
	Text **string
	List **[]string
}

// Fields are the settings, in a fixed order. What they point at is k's.
func (k *Keeping) Fields() []KeepingField {
	return []KeepingField{
		{SettingWriteLayer, &k.WriteLayer, nil},
		{SettingStateOn, &k.StateOn, nil},
		{SettingPersist, nil, &k.Persist},
		{SettingMounts, nil, &k.Mounts},
		{SettingSwap, &k.Swap, nil},
		{SettingUsers, nil, &k.Users},
		{SettingUserKeys, nil, &k.UserKeys},
		{SettingSysctl, nil, &k.Sysctl},
		{SettingExtensions, nil, &k.Extensions},
	}
}

// Set tells whether something was said.
func (f KeepingField) Set() bool {
	return f.Text != nil && *f.Text != nil || f.List != nil && *f.List != nil
}

// String is the value for people: the items of a list are separated by commas; "" for none.
func (f KeepingField) String() string {
	switch {
	case !f.Set():
		return ""
	case f.Text != nil:
		return **f.Text
	}
	return strings.Join(**f.List, ", ")
}

// clear makes the setting unsaid.
func (f KeepingField) clear() {
	if f.Text != nil {
		*f.Text = nil
	} else {
		*f.List = nil
	}
}

// Field returns the setting of a name.
func (k *Keeping) Field(name string) (KeepingField, bool) {
	all := k.Fields()
	i := slices.IndexFunc(all, func(f KeepingField) bool { return f.Name == name })
	if i < 0 {
		return KeepingField{}, false
	}
	return all[i], true
}

// keepingNames are the names of all these settings.
func keepingNames() []string {
	var k Keeping
	var out []string
	for _, f := range k.Fields() {
		out = append(out, f.Name)
	}
	return out
}

// Merge takes over what another says.
func (k *Keeping) Merge(by Keeping) {
	to := k.Fields()
	for i, f := range by.Fields() {
		switch {
		case !f.Set():
		case f.Text != nil:
			*to[i].Text = *f.Text
		default:
			*to[i].List = *f.List
		}
	}
}

// Normal is k with what is empty unsaid, as a group keeps it: nothing stands behind a group but the default.
func (k Keeping) Normal() Keeping {
	for _, f := range k.Fields() {
		if f.String() == "" {
			f.clear()
		}
	}
	return k
}

// said is what a setting holds, the zero value for what was not said.
func said[T any](v *T) (zero T) {
	if v != nil {
		return *v
	}
	return zero
}

// PersistList are the directories and files that are kept, as they were declared.
func (k Keeping) PersistList() []string { return said(k.Persist) }

// MountList are the lines of mounts.
func (k Keeping) MountList() []string { return said(k.Mounts) }

// SysctlList are the settings of the kernel.
func (k Keeping) SysctlList() []string { return said(k.Sysctl) }

// UserList are users and groups as they were declared; UserKeyList are keys of users.
func (k Keeping) UserList() []string { return said(k.Users) }

// UserKeyList are ssh keys with the user before each.
func (k Keeping) UserKeyList() []string { return said(k.UserKeys) }

// StateText says where state is kept, "" for nowhere.
func (k Keeping) StateText() string { return said(k.StateOn) }

// validate says which value cannot be used.
func (k Keeping) validate() error {
	if _, err := ParseWriteLayer(k.WriteLayerText()); err != nil {
		return err
	}
	if _, err := ParseState(k.StateText()); err != nil {
		return err
	}
	if err := validPersist(k.PersistList()); err != nil {
		return err
	}
	if err := validUsers(k); err != nil {
		return err
	}
	if _, err := ParseSwap(k.SwapText()); err != nil {
		return err
	}
	return errors.Join(validMounts(k), validSysctl(k.SysctlList()), validExtensions(k.ExtensionList()))
}

// together says which values of a group cannot be used beside each other.
func (k Keeping) together() error {
	if len(k.PersistList()) > 0 && k.StateText() == "" {
		return errors.New("persist needs a place where it is kept: set state_on, such as 'nfs 10.0.0.1:/srv/state'")
	}
	return nil
}

func validMounts(k Keeping) error {
	taken := map[string]string{}
	for _, p := range k.Kept() {
		taken[p.Path] = "persist"
	}
	for _, line := range k.MountList() {
		m, err := ParseMount(line)
		if err != nil {
			return err
		}
		if by := taken[m.Where]; by != "" {
			return fmt.Errorf("mount %q: %s is taken by %s", line, m.Where, by)
		}
		taken[m.Where] = "another mount"
	}
	return nil
}
