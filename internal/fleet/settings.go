package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Settings are the settings of a group, or those of one node. A nil field is not set: a node then has its group's
// value, a group the default. A node's value replaces the group's; lists are not merged. Image and kernel arguments are
// no settings: a rollout may decide the image, and kernel arguments are concatenated.
type Settings struct {
	AuthorizedKeys *[]string      `json:"authorized_keys,omitempty"` // root's, one OpenSSH line each
	UnlockRoot     *bool          `json:"unlock_root,omitempty"`     // keep root's password as it is in the image
	RebootAfter    *time.Duration `json:"reboot_after,omitempty"`    // reboots a stuck boot; negative: never
	WriteLimit     *string        `json:"write_limit,omitempty"`     // size= of the overlay's tmpfs
	Peers          *PeerPolicy    `json:"peers,omitempty"`
	KernelFrom     *KernelSource  `json:"kernel_from,omitempty"` // who sends kernel and initramfs
	Cache          *CachePolicy   `json:"cache,omitempty"`       // what nodes keep of fetched objects
	CacheSize      *int64         `json:"cache_size,omitempty"`
	Offline        *bool          `json:"offline,omitempty"` // boots from its own disk if no server answers
	Secrets        *SecretPolicy  `json:"secrets,omitempty"` // what a boot must prove before it gets secrets
	Power          *Power         `json:"power,omitempty"`
	Hours          *Hours         `json:"hours,omitempty"` // when nodes are switched on and off
	Sweep          *bool          `json:"sweep,omitempty"` // the server switches nodes on again after a power cut

	Keeping
}

// Keeping has the settings about what a node keeps across boots, its mounts, and extensions.
type Keeping struct {
	WriteLayer *string   `json:"write_layer,omitempty"` // see ParseWriteLayer
	StateOn    *string   `json:"state_on,omitempty"`    // where persistent directories are kept: see ParseState
	Persist    *[]string `json:"persist,omitempty"`     // the persistent directories and files: see ParsePersist
	Mounts     *[]string `json:"mounts,omitempty"`      // lines of fstab(5): see ParseMount
	Swap       *string   `json:"swap,omitempty"`        // see ParseSwap
	Users      *[]string `json:"users,omitempty"`       // local users and groups: see ParseUser
	UserKeys   *[]string `json:"user_keys,omitempty"`   // "NAME ssh-ed25519 AAAA..."
	Sysctl     *[]string `json:"sysctl,omitempty"`      // "KEY=VALUE", after the defaults for nodes
	Extensions *[]string `json:"extensions,omitempty"`  // programs laid over /usr and /opt: references
}

// The keys of settings that other packages look up.
const (
	SettingImage      = "image"
	SettingKernelArgs = "kernel_args"
	SettingCache      = "cache"
	SettingSecrets    = "secrets"
	SettingHours      = "hours"
	SettingWriteLayer = "write_layer"
)

// settingTable has one entry for each field of Settings, in the order of fleet files and displays. It never changes. It
// has no function calls, so it is static data and the linker leaves it out of programs that do not use it.
var settingTable = []Setting{
	{
		Key: "authorized_keys", Flag: "authorized-keys", Kind: KindList, Default: "none", Files: true,
		Usage: "OpenSSH public key of root, or a file of them",
		slot:  func(s *Settings) slot { return listSlot(&s.AuthorizedKeys) },
		check: func(s Settings) error { return each(ValueOf(s.AuthorizedKeys), ValidKeyLine) },
		brief: func(items []string) string { return fmt.Sprintf("%d keys", len(items)) },
	},
	{
		Key: "unlock_root", Flag: "unlock-root", Kind: KindBool, Default: "false",
		Usage: "leave root's password as it is in the image",
		slot:  func(s *Settings) slot { return boolSlot(&s.UnlockRoot) },
	},
	{
		Key: "reboot_after", Flag: "reboot-after", Kind: KindDuration, Default: "the server's default",
		Usage:  "reboot a node that is stuck in its boot this long, such as 10m, or never",
		slot:   func(s *Settings) slot { return durationSlot(&s.RebootAfter) },
		check:  func(s Settings) error { return validReboot(ValueOf(s.RebootAfter)) },
		actual: func(l Layers, _ Settings) string { return rebootText(l.RebootAfter) },
	},
	{
		Key: "write_limit", Flag: "write-limit", Kind: KindText, Default: DefaultWriteLimit,
		Usage: "memory for what a node writes, such as 2G or 50%",
		slot:  func(s *Settings) slot { return textSlot(&s.WriteLimit) },
		check: func(s Settings) error { return validWriteLimit(ValueOf(s.WriteLimit)) },
	},
	{
		Key: "peers", Flag: "peers", Kind: KindText, Default: string(PeersOn),
		Values: []string{string(PeersOn), string(PeersOff), string(PeersRack)},
		Usage:  "whether nodes give each other what they have: on, off, or rack for those of the same place only",
		slot:   func(s *Settings) slot { return textSlot(&s.Peers) },
	},
	{
		Key: "kernel_from", Flag: "kernel-from", Kind: KindText, Default: string(FromNeighbours),
		Values: []string{string(FromNeighbours), string(FromServers)},
		Usage: "who sends kernel and initramfs: neighbours (nodes that have booted with them, where the boot loader " +
			"verifies digests) or servers",
		slot: func(s *Settings) slot { return textSlot(&s.KernelFrom) },
	},
	{
		Key: SettingCache, Flag: "cache", Kind: KindText, Default: string(CacheNone),
		Values: []string{string(CacheNone), string(CacheRAM), string(CacheDisk)},
		Usage:  "where nodes keep what they fetched: none, ram, or disk for one prepared by 'pando node cache'",
		slot:   func(s *Settings) slot { return textSlot(&s.Cache) },
	},
	{
		Key: "cache_size", Flag: "cache-size", with: SettingCache, Kind: KindSize, Default: "the cache's default",
		Usage:  "bytes of the cache, such as 8GB; 0B: the default, 8GB of a disk or 64MB of memory",
		slot:   func(s *Settings) slot { return sizeSlot(&s.CacheSize) },
		check:  validCache,
		actual: func(_ Layers, s Settings) string { return cacheSizeText(s) },
	},
	{
		Key: "offline", Flag: "offline", with: SettingCache, Kind: KindBool, Default: "false",
		Usage: "whether a node boots from its disk what it booted last, when no server answers",
		slot:  func(s *Settings) slot { return boolSlot(&s.Offline) },
		check: validOffline,
	},
	{
		Key: SettingSecrets, Flag: "secrets", Kind: KindText, Default: string(SecretsMAC),
		Usage: "what a boot has to show before it gets secrets: mac, approve-each-boot or tpm; with ,wait it waits " +
			"until it has",
		slot:  func(s *Settings) slot { return textSlot(&s.Secrets) },
		check: func(s Settings) error { return ValueOf(s.Secrets).Validate() },
	},
	{
		Key: "power", Flag: "power", Kind: KindText, Default: string(PowerWOL), Effect: ByServer,
		Usage: "how nodes are switched: wol, wol://BROADCAST, redfish://USER@ADDRESS, ipmi://USER@ADDRESS, " +
			"command:NAME or none",
		slot:  func(s *Settings) slot { return textSlot(&s.Power) },
		check: func(s Settings) error { _, err := ValueOf(s.Power).parse(); return err },
	},
	{
		Key: SettingHours, Flag: "hours", Kind: KindText, Default: "none", Effect: ByServer,
		Usage: "when nodes are on, such as 'Mon-Fri 07:45-22:00; 2026-12-24 off; Europe/Berlin'; empty: never switched",
		slot:  func(s *Settings) slot { return textSlot(&s.Hours) },
		check: func(s Settings) error { return validHours(ValueOf(s.Hours)) },
	},
	{
		Key: "sweep", Flag: "sweep", Kind: KindBool, Default: "false", Effect: ByServer,
		Usage: "after a power cut, the server switches on by itself the nodes that should be on",
		slot:  func(s *Settings) slot { return boolSlot(&s.Sweep) },
	},
	{
		Key: SettingWriteLayer, Flag: "write-layer", Kind: KindText, Default: string(LayerMemory),
		Usage: "what takes writes to the root: tmpfs (memory), zram (compressed memory), 'disk wipe' or 'disk keep' " +
			"for a partition of the node called " + WritePartition,
		slot:  func(s *Settings) slot { return textSlot(&s.WriteLayer) },
		check: func(s Settings) error { _, err := ParseWriteLayer(s.WriteLayerText()); return err },
	},
	{
		Key: "state_on", Flag: "state-on", Kind: KindText, Default: "none",
		Usage: "where persistent directories are kept: 'nfs SERVER:/DIR', 'volume SIZE' for one that the server has, " +
			"'directory /DIR', or 'disk' for a partition of the node called " + StatePartition + "; empty: nowhere",
		slot:  func(s *Settings) slot { return textSlot(&s.StateOn) },
		check: func(s Settings) error { _, err := ParseState(s.StateText()); return err },
	},
	{
		Key: "persist", Flag: "persist", Kind: KindList, Default: "none",
		Usage: "directory, or file:/PATH, that outlives reboots and image changes",
		slot:  func(s *Settings) slot { return listSlot(&s.Persist) },
		check: func(s Settings) error { return validPersist(s.PersistList()) },
	},
	{
		Key: "mounts", Flag: "mount", Kind: KindList, Default: "none",
		Usage: "file system to mount, as a line of fstab: 'WHAT WHERE TYPE [OPTIONS]'",
		slot:  func(s *Settings) slot { return listSlot(&s.Mounts) },
		check: func(s Settings) error { return validMounts(s.Keeping) },
	},
	{
		Key: "swap", Flag: "swap", Kind: KindText, Default: SwapNone,
		Usage: "swap space: none, zram (compressed memory), disk for a partition called " + SwapPartition +
			", or 'volume SIZE' for one that the server has: while that is away, what was swapped out stands still",
		slot:  func(s *Settings) slot { return textSlot(&s.Swap) },
		check: func(s Settings) error { _, err := ParseSwap(s.SwapText()); return err },
		note:  swapNote,
	},
	{
		Key: "users", Flag: "user", Kind: KindList, Default: "none",
		Usage: "local user, 'NAME uid=2000 [groups=A,B] [shell=/bin/bash] [home=/DIR]', or 'group NAME gid=3000'",
		slot:  func(s *Settings) slot { return listSlot(&s.Users) },
		check: func(s Settings) error { return validUsers(s.Keeping) },
	},
	{
		Key: "user_keys", Flag: "user-key", Kind: KindList, Default: "none",
		Usage: "ssh key of a user, 'NAME ssh-ed25519 AAAA...'",
		slot:  func(s *Settings) slot { return listSlot(&s.UserKeys) }, // checked together with users
	},
	{
		Key: "sysctl", Flag: "sysctl", Kind: KindList, Default: "none",
		Usage: "setting of the kernel, KEY=VALUE, after what nodes have by default",
		slot:  func(s *Settings) slot { return listSlot(&s.Sysctl) },
		check: func(s Settings) error { return validSysctl(s.SysctlList()) },
	},
	{
		Key: "extensions", Flag: "extend", FlagNone: "no-extend", Kind: KindList, Default: "none", Effect: AtOnce,
		Usage: "extension of /usr and /opt, NAME, NAME:TAG or NAME@sha256:..., which running nodes get at once",
		slot:  func(s *Settings) slot { return listSlot(&s.Extensions) },
		check: func(s Settings) error { return validExtensions(s.ExtensionList()) },
	},
}

// SettingTable returns the settings in the order of fleet files and displays.
func SettingTable() []Setting { return slices.Clone(settingTable) }

// ValueOf returns the value of a field of Settings, the zero value if it is not set.
func ValueOf[T any](v *T) (zero T) {
	if v != nil {
		return *v
	}
	return zero
}

// each returns the error of the first item that check refuses.
func each(items []string, check func(string) error) error {
	for _, s := range items {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// Of returns the group as a node with the settings s sees it. A setting that depends on one in s (a cache's size on the
// cache) gets its default instead of the group's value, unless s sets it too.
func (s Settings) Of(g Group) Group {
	for _, x := range settingTable {
		if x.goesWith(s) {
			x.slot(&g.Settings).clear()
		}
	}
	g.Settings.Merge(s)
	return g
}

// goesWith reports whether s sets the setting that this one belongs to.
func (x Setting) goesWith(s Settings) bool {
	first, ok := FindSetting(x.with)
	return ok && first.IsSet(s)
}

// Merge overwrites the settings of s with those that by sets.
func (s *Settings) Merge(by Settings) {
	for _, x := range settingTable {
		if other := x.slot(&by); other.isSet() {
			x.slot(s).copyFrom(other)
		}
	}
}

// Normal returns s without the values that equal the default, as a group is stored.
func (s Settings) Normal() Settings {
	for _, x := range settingTable {
		if v := x.slot(&s); v.isDefault() {
			v.clear()
		}
	}
	return s
}

// Drop unsets a setting by its key, and the settings that belong to it.
func (s *Settings) Drop(key string) error {
	x, ok := FindSetting(key)
	if !ok {
		return fmt.Errorf("there is no setting %q that a node has of its own: they are %s", key,
			strings.Join(SettingKeys(), ", "))
	}
	x.slot(s).clear()
	for _, other := range settingTable {
		if other.with == key {
			other.slot(s).clear()
		}
	}
	return nil
}

// SettingKeys returns the keys of all settings.
func SettingKeys() []string {
	keys := make([]string, len(settingTable))
	for i, x := range settingTable {
		keys[i] = x.Key
	}
	return keys
}

// Explicit returns the settings that are set.
func (s Settings) Explicit() []Setting {
	return slices.DeleteFunc(SettingTable(), func(x Setting) bool { return !x.IsSet(s) })
}

// SettingChange is a setting with different values in two Settings.
type SettingChange struct {
	Setting
	Was, Is string // the values for people
}

// String returns the change for people: "write limit: 50% -> 2g".
func (c SettingChange) String() string { return c.Label() + ": " + c.Was + " -> " + c.Is }

// Diff returns the settings that differ. A setting that is not set is shown as the text unset or, if that is "", as its
// default.
func (s Settings) Diff(is Settings, unset string) []SettingChange {
	text := func(x Setting, of Settings) string {
		if unset != "" && !x.IsSet(of) {
			return unset
		}
		return x.Text(of)
	}
	var out []SettingChange
	for _, x := range settingTable {
		c := SettingChange{x, text(x, s), text(x, is)}
		if c.Was == c.Is && slices.Equal(x.Items(s), x.Items(is)) {
			continue
		}
		if c.Was == c.Is {
			c.Is += ", others"
		}
		out = append(out, c)
	}
	return out
}

// validate returns an error for the first value that cannot be used.
func (s Settings) validate() error {
	for _, x := range settingTable {
		if err := x.validate(s); err != nil {
			return err
		}
	}
	return nil
}

// validOwn checks the settings of a node. The result does not depend on its group, so a change of the group never makes
// a node invalid.
func (s Settings) validOwn() error {
	for _, x := range settingTable {
		if x.with != "" && x.IsSet(s) && !x.goesWith(s) {
			return fmt.Errorf("%s belongs to a %s of its own: set it with %s", x.Label(), x.with, x.with)
		}
	}
	return s.validate()
}

// together checks the values of a group that depend on each other.
func (s Settings) together() error {
	if len(s.PersistList()) > 0 && s.StateText() == "" {
		return errors.New("persist needs a place where it is kept: set state_on, such as 'nfs 10.0.0.1:/srv/state'")
	}
	return nil
}
