package fleetfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"pando/internal/api"
	"pando/internal/fleet"
)

// The structure of a fleet file as it is written. Parse reads the same structure by hand; a test checks that the two
// agree.
type (
	fileText struct {
		Policy  *policyText           `yaml:"policy,omitempty"`
		Owns    *ownsText             `yaml:"owns,omitempty"`
		Classes map[string]classText  `yaml:"classes,omitempty"`
		Groups  map[string]*yaml.Node `yaml:"groups,omitempty"`
		Nodes   map[string]*yaml.Node `yaml:"nodes,omitempty"`

		Config  map[string]map[string]configText `yaml:"config,omitempty"`
		Secrets map[string]secretText            `yaml:"secrets,omitempty"`
	}
	secretText struct {
		For []string `yaml:"for,flow"`
	}
	configText struct {
		Verbatim bool   `yaml:"verbatim,omitempty"`
		Mode     string `yaml:"mode,omitempty"`
		Owner    string `yaml:"owner,omitempty"`
		Run      string `yaml:"run,omitempty"`
		Content  string `yaml:"content"`
	}
	policyText struct {
		Adoption string `yaml:"adoption,omitempty"`
		Naming   string `yaml:"naming,omitempty"`
	}
	ownsText struct {
		Nodes   string   `yaml:"nodes,omitempty"`
		Groups  []string `yaml:"groups,omitempty,flow"`
		Classes []string `yaml:"classes,omitempty,flow"`
		Config  []string `yaml:"config,omitempty,flow"`
	}
	classText struct {
		Match      matchText `yaml:"match"`
		KernelArgs []string  `yaml:"kernel_args,omitempty,flow"`
	}
	matchText struct {
		Vendor       []string `yaml:"vendor,omitempty,flow"`
		Product      []string `yaml:"product,omitempty,flow"`
		CPU          []string `yaml:"cpu,omitempty,flow"`
		Architecture []string `yaml:"architecture,omitempty,flow"`
		PCI          []string `yaml:"pci,omitempty,flow"`
	}
	groupText struct {
		Image      string   `yaml:"image,omitempty"`
		Follow     bool     `yaml:"follow,omitempty"`
		KernelArgs []string `yaml:"kernel_args,omitempty,flow"`
	}
	nodeText struct {
		MACs       []string          `yaml:"mac,omitempty,flow"`
		Serial     string            `yaml:"serial,omitempty"`
		Group      string            `yaml:"group,omitempty"`
		Labels     map[string]string `yaml:"labels,omitempty,flow"`
		Address    string            `yaml:"address,omitempty"`
		Image      string            `yaml:"image,omitempty"`
		Follow     bool              `yaml:"follow,omitempty"`
		KernelArgs []string          `yaml:"kernel_args,omitempty,flow"`
	}
)

// Encode writes a fleet file. Parse reads it back to the same declaration.
func Encode(d api.Declaration) ([]byte, error) {
	out := fileText{Classes: map[string]classText{}, Groups: map[string]*yaml.Node{}, Nodes: map[string]*yaml.Node{}}
	if d.Policy != nil {
		out.Policy = &policyText{string(d.Policy.Adoption), d.Policy.Naming}
	}
	if o := d.Owns; o.Nodes != "" || len(o.Groups) > 0 || len(o.Classes) > 0 || len(o.Config) > 0 {
		out.Owns = &ownsText{o.Nodes, o.Groups, o.Classes, o.Config}
	}
	out.Config, out.Secrets = configTexts(d.Config), secretTexts(d.Secrets)
	for _, c := range d.Classes {
		out.Classes[c.Name] = classText{matchText(c.Match), c.KernelArgs}
	}
	var err error
	for _, g := range d.Groups {
		text := groupText{string(g.Image), g.Follow, g.KernelArgs}
		if out.Groups[g.Name], err = withSettings(text, g.Settings.Normal()); err != nil {
			return nil, fmt.Errorf("write group %s: %w", g.Name, err)
		}
	}
	for _, n := range d.Nodes {
		if out.Nodes[n.Name], err = withSettings(nodeTextOf(n), n.Settings); err != nil {
			return nil, fmt.Errorf("write node %s: %w", n.Name, err)
		}
	}
	var top yaml.Node
	if err := top.Encode(out); err != nil {
		return nil, fmt.Errorf("write fleet file: %w", err)
	}
	quoteInvisible(&top)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(&top), e.Close()); err != nil {
		return nil, fmt.Errorf("write fleet file: %w", err)
	}
	return escapeInvisible(b.String()), nil
}

// invisible reports whether a character would control a terminal or an editor, such as marks of writing direction. Line
// breaks and tabs would not.
func invisible(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// quoteInvisible puts text with invisible characters into double quotes, where they may be escapes.
func quoteInvisible(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && strings.ContainsFunc(n.Value, invisible) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		quoteInvisible(c)
	}
}

// escapeInvisible writes as escapes what yaml takes for printable.
func escapeInvisible(text string) []byte {
	var out strings.Builder
	for _, r := range text {
		if invisible(r) {
			fmt.Fprintf(&out, `\U%08x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return []byte(out.String())
}

func nodeTextOf(n api.NodeDeclare) nodeText {
	t := nodeText{
		Serial:     n.Serial,
		Group:      n.Group,
		Labels:     n.Labels,
		Address:    n.Address,
		Image:      string(n.Version),
		Follow:     n.Follow,
		KernelArgs: n.KernelArgs,
	}
	for _, m := range n.MACs {
		t.MACs = append(t.MACs, m.String())
	}
	return t
}

// withSettings returns a mapping with the fields of a struct and, after them, the settings that are set.
func withSettings(fields any, s fleet.Settings) (*yaml.Node, error) {
	var out yaml.Node
	if err := out.Encode(fields); err != nil {
		return nil, err
	}
	for _, x := range s.Explicit() {
		var key, value yaml.Node
		if err := errors.Join(key.Encode(x.Key), value.Encode(settingValue(x, s))); err != nil {
			return nil, err
		}
		out.Style = 0 // a mapping without fields is {} in one line
		out.Content = append(out.Content, &key, &value)
	}
	return &out, nil
}

// settingValue returns a setting as a file has it. The zero value of a one-word setting is the word "default".
func settingValue(x fleet.Setting, s fleet.Settings) any {
	items := x.Items(s)
	switch x.Kind {
	case fleet.KindList:
		return append([]string{}, items...)
	case fleet.KindBool:
		return len(items) > 0
	}
	return cmp.Or(strings.Join(items, ""), byDefault)
}
