package fleet

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Overrides are the settings of a group that one node has otherwise. Each is a whole value: a node that has
// authorized keys of its own has none of its group's. nil: as the group has it. Kernel arguments are no override:
// they come after the group's.
type Overrides struct {
	AuthorizedKeys *[]string      `json:"authorized_keys,omitempty"`
	UnlockRoot     *bool          `json:"unlock_root,omitempty"`
	RebootAfter    *time.Duration `json:"reboot_after,omitempty"`
	WriteLimit     *string        `json:"write_limit,omitempty"`
	Peers          *PeerPolicy    `json:"peers,omitempty"`
	Share          *int64         `json:"share,omitempty"`
	// with it the size is the default, and offline no, unless given here
	Cache     *CachePolicy  `json:"cache,omitempty"`
	CacheSize *int64        `json:"cache_size,omitempty"` // only with Cache
	Offline   *bool         `json:"offline,omitempty"`    // only with Cache
	Secrets   *SecretPolicy `json:"secrets,omitempty"`
	Power     *Power        `json:"power,omitempty"`
	Hours     *Hours        `json:"hours,omitempty"`
	Sweep     *bool         `json:"sweep,omitempty"`

	Keeping
}

// The names of the settings, as files, flags and the API have them.
const (
	SettingImage          = "image"
	SettingKernelArgs     = "kernel_args"
	SettingAuthorizedKeys = "authorized_keys"
	SettingUnlockRoot     = "unlock_root"
	SettingRebootAfter    = "reboot_after"
	SettingWriteLimit     = "write_limit"
	SettingPeers          = "peers"
	SettingShare          = "share"
	SettingCache          = "cache"
	SettingCacheSize      = "cache_size"
	SettingOffline        = "offline"
	SettingSecrets        = "secrets"
	SettingPower          = "power"
	SettingHours          = "hours"
	SettingSweep          = "sweep"
)

// OverrideNames are the settings that a node may have otherwise than its group, beside the image.
func OverrideNames() []string {
	return append(
		[]string{
			SettingAuthorizedKeys,
			SettingUnlockRoot,
			SettingRebootAfter,
			SettingWriteLimit,
			SettingPeers,
			SettingShare,
			SettingCache,
			SettingCacheSize,
			SettingOffline,
			SettingPower,
			SettingHours,
			SettingSweep,
			SettingSecrets,
		},
		keepingNames()...)
}

// Of is group g as a node with these overrides has it.
func (o Overrides) Of(g Group) Group {
	if o.Cache != nil {
		g.Cache, g.CacheSize, g.Offline = *o.Cache, 0, false
	}
	if o.AuthorizedKeys != nil {
		g.AuthorizedKeys = *o.AuthorizedKeys
	}
	replace(&g.UnlockRoot, o.UnlockRoot)
	replace(&g.RebootAfter, o.RebootAfter)
	replace(&g.WriteLimit, o.WriteLimit)
	replace(&g.Peers, o.Peers)
	replace(&g.Share, o.Share)
	replace(&g.CacheSize, o.CacheSize)
	replace(&g.Offline, o.Offline)
	replace(&g.Secrets, o.Secrets)
	replace(&g.Power, o.Power)
	replace(&g.Hours, o.Hours)
	replace(&g.Sweep, o.Sweep)
	g.Keeping.Merge(o.Keeping)
	return g
}

func replace[T any](value, by *T) {
	if by != nil {
		*value = *by
	}
}

// Merge adds the overrides of another, which win.
func (o *Overrides) Merge(by Overrides) {
	pick(&o.AuthorizedKeys, by.AuthorizedKeys)
	pick(&o.UnlockRoot, by.UnlockRoot)
	pick(&o.RebootAfter, by.RebootAfter)
	pick(&o.WriteLimit, by.WriteLimit)
	pick(&o.Peers, by.Peers)
	pick(&o.Share, by.Share)
	pick(&o.Cache, by.Cache)
	pick(&o.CacheSize, by.CacheSize)
	pick(&o.Offline, by.Offline)
	pick(&o.Secrets, by.Secrets)
	pick(&o.Power, by.Power)
	pick(&o.Hours, by.Hours)
	pick(&o.Sweep, by.Sweep)
	o.Keeping.Merge(by.Keeping)
}

func pick[T any](value **T, by *T) {
	if by != nil {
		*value = by
	}
}

// Drop takes an override away by the name of its setting. The size of a cache and offline go with the cache.
func (o *Overrides) Drop(name string) error {
	switch name {
	case SettingAuthorizedKeys:
		o.AuthorizedKeys = nil
	case SettingUnlockRoot:
		o.UnlockRoot = nil
	case SettingRebootAfter:
		o.RebootAfter = nil
	case SettingWriteLimit:
		o.WriteLimit = nil
	case SettingPeers:
		o.Peers = nil
	case SettingShare:
		o.Share = nil
	case SettingCache:
		o.Cache, o.CacheSize, o.Offline = nil, nil, nil
	case SettingCacheSize:
		o.CacheSize = nil
	case SettingOffline:
		o.Offline = nil
	case SettingSecrets:
		o.Secrets = nil
	case SettingPower:
		o.Power = nil
	case SettingHours:
		o.Hours = nil
	case SettingSweep:
		o.Sweep = nil
	default:
		if f, ok := o.Keeping.Field(name); ok {
			f.clear()
			return nil
		}
		return fmt.Errorf("there is no setting %q that a node has of its own: they are %q", name, OverrideNames())
	}
	return nil
}

// IsZero reports whether there is no override.
func (o Overrides) IsZero() bool { return len(o.Set()) == 0 }

// Set returns the names of the settings that are overridden.
func (o Overrides) Set() []string {
	set := []bool{
		o.AuthorizedKeys != nil,
		o.UnlockRoot != nil,
		o.RebootAfter != nil,
		o.WriteLimit != nil,
		o.Peers != nil,
		o.Share != nil,
		o.Cache != nil,
		o.CacheSize != nil,
		o.Offline != nil,
		o.Power != nil,
		o.Hours != nil,
		o.Sweep != nil,
		o.Secrets != nil,
	}
	for _, f := range o.Keeping.Fields() {
		set = append(set, f.Set())
	}
	var out []string
	for i, name := range OverrideNames() {
		if set[i] {
			out = append(out, name)
		}
	}
	return out
}

// has reports whether a setting is overridden, also by way of the cache.
func (o Overrides) has(name string) bool {
	return slices.Contains(o.Set(), name) || o.Cache != nil && (name == SettingCacheSize || name == SettingOffline)
}

// validate says which override cannot be used. None depends on the group: so no change of a group makes a node invalid.
func (o Overrides) validate() error {
	if o.Cache == nil && (o.CacheSize != nil || o.Offline != nil) {
		return errors.New("a cache's size and offline belong to a cache of its own: set them with cache")
	}
	return o.Of(Group{Name: DefaultGroup}).settings()
}
