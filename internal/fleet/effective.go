package fleet

import (
	"strings"
	"time"
)

// Value is a setting of a node and where it comes from.
type Value struct {
	Setting string   `json:"setting"`
	Value   string   `json:"value"`          // as flags and files have it
	From    string   `json:"from"`           // "node", "group lab", "default"
	Over    []string `json:"over,omitempty"` // the values that it overrides: "debian:stable of group lab"
}

// Layers are the sources of a node's settings.
type Layers struct {
	Node        Node
	Group       Group
	Hardware    Hardware
	Classes     []Class       // all classes of the site
	ImageArgs   []string      // kernel arguments of the version's manifest
	RebootAfter time.Duration // the server's default

	Rollout string // the rollout that decides the image; "": none
	Target  Ref    // the image that this rollout decides on
}

// Values of a setting that nobody set.
const (
	DefaultWriteLimit = "50%"
	fromDefault       = "default"
)

// Effective returns every setting of a node and where it comes from, in a fixed order. Kernel arguments have several
// entries, in the order in which the kernel reads them: all apply, and the last of two contradicting ones wins.
func Effective(l Layers) []Value {
	out := append(l.classes(), l.image())
	out = append(out, l.kernelArgs()...)
	for _, x := range settingTable {
		out = append(out, l.value(x))
	}
	return out
}

// value returns one setting of the node.
func (l Layers) value(x Setting) Value {
	all := l.Node.Settings.Of(l.Group).Settings
	v := Value{Setting: x.Key, Value: x.text(all), From: "group " + l.Group.Name}
	of := x.text(l.Group.Settings)
	switch {
	case x.IsSet(l.Node.Settings), x.goesWith(l.Node.Settings):
		v.From = "node"
		if of != "" {
			v.Over = []string{of + " of group " + l.Group.Name}
		}
	case of == "":
		v.From = fromDefault
	}
	switch {
	case v.Value != "":
	case x.actual != nil:
		v.Value = x.actual(l, all)
	default:
		v.Value = x.Default
	}
	return v
}

// classes returns the hardware classes of the node, and why the node belongs to each.
func (l Layers) classes() []Value {
	var out []Value
	for _, c := range ClassesOf(l.Hardware, l.Classes) {
		out = append(out, Value{Setting: "class", Value: c.Name, From: strings.Join(c.Match.Why(l.Hardware), ", ")})
	}
	return out
}

// image returns the image of the node. The first source that names one wins.
func (l Layers) image() Value {
	var found []Value
	add := func(ref Ref, follow bool, from string) {
		if ref != "" {
			found = append(found, Value{Setting: SettingImage, Value: RefText(ref, follow), From: from})
		}
	}
	add(l.Node.Version, l.Node.Follow, "node")
	add(l.Target, false, "rollout "+l.Rollout)
	add(l.Group.Image, l.Group.Follow, "group "+l.Group.Name)
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

func cacheSizeText(s Settings) string {
	if c := s.CacheOf(); c != nil {
		return SizeText(c.Size)
	}
	return "none"
}
