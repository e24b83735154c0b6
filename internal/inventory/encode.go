package inventory

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"pando/internal/api"
	"pando/internal/fleet"
)

// The shapes of a fleet file as it is written. Parse reads by hand what these write; a test holds them together.
type (
	fileText struct {
		Policy  *policyText          `yaml:"policy,omitempty"`
		Owns    *ownsText            `yaml:"owns,omitempty"`
		Classes map[string]classText `yaml:"classes,omitempty"`
		Groups  map[string]groupText `yaml:"groups,omitempty"`
		Nodes   map[string]nodeText  `yaml:"nodes,omitempty"`

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
	settingsText struct {
		AuthorizedKeys *[]string `yaml:"authorized_keys,omitempty"`
		UnlockRoot     *bool     `yaml:"unlock_root,omitempty"`
		RebootAfter    *string   `yaml:"reboot_after,omitempty"`
		WriteLimit     *string   `yaml:"write_limit,omitempty"`
		Peers          *string   `yaml:"peers,omitempty"`
		Share          *string   `yaml:"share,omitempty"`
		Cache          *string   `yaml:"cache,omitempty"`
		CacheSize      *string   `yaml:"cache_size,omitempty"`
		Offline        *bool     `yaml:"offline,omitempty"`
		Secrets        *string   `yaml:"secrets,omitempty"`
		Power          *string   `yaml:"power,omitempty"`
		Hours          *string   `yaml:"hours,omitempty"`
		Sweep          *bool     `yaml:"sweep,omitempty"`
		keepingText    `yaml:",inline"`
	}
	keepingText struct {
		WriteLayer *string   `yaml:"write_layer,omitempty"`
		StateOn    *string   `yaml:"state_on,omitempty"`
		Persist    *[]string `yaml:"persist,omitempty"`
		Mounts     *[]string `yaml:"mounts,omitempty"`
		Swap       *string   `yaml:"swap,omitempty"`
		Users      *[]string `yaml:"users,omitempty"`
		UserKeys   *[]string `yaml:"user_keys,omitempty"`
		Sysctl     *[]string `yaml:"sysctl,omitempty"`

		Extensions *[]string `yaml:"extensions,omitempty"`
	}
	groupText struct {
		Image        string   `yaml:"image,omitempty"`
		KernelArgs   []string `yaml:"kernel_args,omitempty,flow"`
		settingsText `yaml:",inline"`
	}
	nodeText struct {
		MACs         []string          `yaml:"mac,omitempty,flow"`
		Serial       string            `yaml:"serial,omitempty"`
		Group        string            `yaml:"group,omitempty"`
		Labels       map[string]string `yaml:"labels,omitempty,flow"`
		Address      string            `yaml:"address,omitempty"`
		Image        string            `yaml:"image,omitempty"`
		KernelArgs   []string          `yaml:"kernel_args,omitempty,flow"`
		settingsText `yaml:",inline"`
	}
)

// Encode writes a fleet file. Parse reads it back to the same declaration.
func Encode(d api.Declaration) ([]byte, error) {
	out := fileText{Classes: map[string]classText{}, Groups: map[string]groupText{}, Nodes: map[string]nodeText{}}
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
	for _, g := range d.Groups {
		out.Groups[g.Name] = groupText{string(g.Image), g.KernelArgs, settingsOf(groupOverrides(g))}
	}
	for _, n := range d.Nodes {
		t := nodeText{
			Serial:       n.Serial,
			Group:        n.Group,
			Labels:       n.Labels,
			Address:      n.Address,
			Image:        string(n.Version),
			KernelArgs:   n.KernelArgs,
			settingsText: settingsOf(n.Overrides),
		}
		for _, m := range n.MACs {
			t.MACs = append(t.MACs, m.String())
		}
		out.Nodes[n.Name] = t
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("write fleet file: %w", err)
	}
	return b.Bytes(), e.Close()
}

// groupOverrides are what a group says beside its image and kernel arguments, as overrides of a group that says
// nothing.
func groupOverrides(g fleet.Group) fleet.Overrides {
	var o fleet.Overrides
	if len(g.AuthorizedKeys) > 0 {
		o.AuthorizedKeys = &g.AuthorizedKeys
	}
	if g.UnlockRoot {
		o.UnlockRoot = &g.UnlockRoot
	}
	if g.RebootAfter != 0 {
		o.RebootAfter = &g.RebootAfter
	}
	if g.WriteLimit != "" {
		o.WriteLimit = &g.WriteLimit
	}
	if g.Peers != "" {
		o.Peers = &g.Peers
	}
	if g.Share != 0 {
		o.Share = &g.Share
	}
	if g.Cache != "" {
		o.Cache = &g.Cache
	}
	if g.CacheSize != 0 {
		o.CacheSize = &g.CacheSize
	}
	if g.Offline {
		o.Offline = &g.Offline
	}
	if g.Secrets != "" {
		o.Secrets = &g.Secrets
	}
	if g.Power != "" {
		o.Power = &g.Power
	}
	if g.Hours != "" {
		o.Hours = &g.Hours
	}
	if g.Sweep {
		o.Sweep = &g.Sweep
	}
	o.Keeping = g.Keeping
	return o
}

func settingsOf(o fleet.Overrides) settingsText {
	return settingsText{
		AuthorizedKeys: o.AuthorizedKeys, UnlockRoot: o.UnlockRoot, Offline: o.Offline,
		RebootAfter: text(o.RebootAfter, fleet.RebootText), WriteLimit: text(o.WriteLimit, asIs[string]),
		Peers: text(o.Peers, asIs[fleet.PeerPolicy]), Share: text(o.Share, fleet.SizeText),
		Cache: text(o.Cache, asIs[fleet.CachePolicy]), CacheSize: text(o.CacheSize, fleet.SizeText),
		Secrets: text(o.Secrets, asIs[fleet.SecretPolicy]),
		Power: text(
			o.Power,
			asIs[fleet.Power],
		), Hours: text(o.Hours, asIs[fleet.Hours]), Sweep: o.Sweep, keepingText: keepingText(o.Keeping),
	}
}

func asIs[T ~string](v T) string { return string(v) }

// text is a value as a file has it, nil where there is none; the zero value is the word default.
func text[T string | time.Duration | int64 | fleet.PeerPolicy | fleet.CachePolicy | fleet.SecretPolicy | fleet.Power | fleet.Hours](
	v *T,
	write func(T) string,
) *string {
	if v == nil {
		return nil
	}
	s := cmp.Or(write(*v), byDefault)
	return &s
}
