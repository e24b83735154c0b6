package fleet

import (
	"fmt"
	"strings"
	"time"
)

// Value is one setting as a node has it, and where it comes from.
type Value struct {
	Setting string   `json:"setting"`
	Value   string   `json:"value"`          // as flags and files have it
	From    string   `json:"from"`           // "node", "group lab", "default"
	Over    []string `json:"over,omitempty"` // what it stands in the place of: "debian:stable of group lab"
}

// Layers are what the values of a node come from.
type Layers struct {
	Node        Node
	Group       Group
	Hardware    Hardware
	Classes     []Class       // all that there are
	ImageArgs   []string      // kernel arguments of the version's manifest
	RebootAfter time.Duration // the server's default

	Rollout string // that decides the image, "" for none
	Target  Ref    // which one
}

// Values of a setting that nobody set.
const (
	DefaultWriteLimit = "50%"
	fromDefault       = "default"
)

// Effective is every setting of a node with where it comes from, in a fixed order. Kernel arguments are several, in
// the order in which the kernel reads them: all count, and of two that contradict each other the last.
func Effective(l Layers) []Value {
	own, group := l.Node.Overrides, "group "+l.Group.Name
	g, all := l.Group, l.Node.Overrides.Of(l.Group)
	pick := func(setting, otherwise string, text func(Group) string) Value {
		v := Value{Setting: setting, Value: text(all), From: group}
		of := text(g)
		switch {
		case own.has(setting):
			v.From = "node"
			if of != "" {
				v.Over = []string{of + " of " + group}
			}
		case of == "":
			v.From = fromDefault
		}
		if v.Value == "" {
			v.Value = otherwise
		}
		return v
	}
	out := l.classes()
	out = append(out, l.image())
	out = append(out, l.kernelArgs()...)
	out = append(out,
		pick(SettingPeers, string(PeersOn), func(g Group) string { return string(g.Peers) }),
		pick(SettingShare, "as the node has memory", func(g Group) string { return SizeText(g.Share) }),
		pick(SettingCache, string(CacheNone), func(g Group) string { return string(g.Cache) }),
		pick(SettingCacheSize, cacheSizeText(all), func(g Group) string { return SizeText(g.CacheSize) }),
		pick(SettingOffline, "false", func(g Group) string { return boolText(g.Offline) }),
		pick(SettingSecrets, string(SecretsMAC), func(g Group) string { return string(g.Secrets) }),
		pick(SettingPower, string(PowerWOL), func(g Group) string { return string(g.Power) }),
		pick(SettingHours, "none", func(g Group) string { return string(g.Hours) }),
		pick(SettingSweep, "false", func(g Group) string { return boolText(g.Sweep) }),
		pick(SettingWriteLimit, DefaultWriteLimit, func(g Group) string { return g.WriteLimit }),
		pick(SettingRebootAfter, RebootText(l.RebootAfter), func(g Group) string { return RebootText(g.RebootAfter) }),
		pick(SettingUnlockRoot, "false", func(g Group) string { return boolText(g.UnlockRoot) }),
		pick(SettingAuthorizedKeys, "none", func(g Group) string { return keysText(g.AuthorizedKeys) }))
	for _, name := range keepingNames() {
		out = append(out, pick(name, KeepingDefault(name), func(g Group) string {
			f, _ := g.Keeping.Field(name)
			return f.String()
		}))
	}
	return out
}

// classes are the hardware classes of the node, and why it is of them.
func (l Layers) classes() []Value {
	var out []Value
	for _, c := range ClassesOf(l.Hardware, l.Classes) {
		out = append(out, Value{Setting: "class", Value: c.Name, From: strings.Join(c.Match.Why(l.Hardware), ", ")})
	}
	return out
}

// image is the image of the node. What comes first wins.
func (l Layers) image() Value {
	var found []Value
	add := func(ref Ref, from string) {
		if ref != "" {
			found = append(found, Value{Setting: SettingImage, Value: string(ref), From: from})
		}
	}
	add(l.Node.Version, "node")
	add(l.Target, "rollout "+l.Rollout)
	add(l.Group.Image, "group "+l.Group.Name)
	if len(found) == 0 {
		return Value{Setting: SettingImage, Value: "none", From: fromDefault}
	}
	v := found[0]
	for _, other := range found[1:] {
		v.Over = append(v.Over, other.Value+" of "+other.From)
	}
	return v
}

func (l Layers) kernelArgs() []Value {
	var out []Value
	add := func(args []string, from string) {
		if len(args) > 0 {
			out = append(out, Value{Setting: SettingKernelArgs, Value: strings.Join(args, " "), From: from})
		}
	}
	add(l.ImageArgs, "image")
	add(l.Group.KernelArgs, "group "+l.Group.Name)
	for _, c := range ClassesOf(l.Hardware, l.Classes) {
		add(c.KernelArgs, "class "+c.Name)
	}
	add(l.Node.KernelArgs, "node")
	return out
}

func cacheSizeText(g Group) string {
	if c := g.CacheOf(); c != nil {
		return SizeText(c.Size)
	}
	return "none"
}

// SizeText is a number of bytes as flags and files have it, exact: 64MB, 8GB; "" for none.
func SizeText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n%1e9 == 0:
		return fmt.Sprintf("%dGB", n/1e9)
	case n%1e6 == 0:
		return fmt.Sprintf("%dMB", n/1e6)
	case n%1e3 == 0:
		return fmt.Sprintf("%dkB", n/1e3)
	}
	return fmt.Sprintf("%dB", n)
}

// RebootText is after how long a stuck boot reboots, as files have it: a duration, "never", or "" for the default.
func RebootText(d time.Duration) string {
	switch {
	case d < 0:
		return "never"
	case d == 0:
		return ""
	}
	return d.String()
}

func boolText(yes bool) string {
	if yes {
		return "true"
	}
	return ""
}

func keysText(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("%d keys", len(keys))
}
