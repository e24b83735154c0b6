package fleetfile

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"pando/internal/api"
	"pando/internal/fleet"
)

// File is a parsed declaration, with the lines of its items.
type File struct {
	api.Declaration
	Lines map[string]int // "node pc001": 12
	Note  string         // a note for people about the file; "": none
	From  map[int]string // index in Config -> file that has the content of the config file
}

// Parse reads a fleet file. Its error is an Errors with at most maxErrors entries.
func Parse(name string, raw []byte) (File, error) {
	f := fileReader{reader{problems: problems{file: name}}, File{Lines: map[string]int{}}}
	text := f.textOf(raw)
	if len(f.list) > 0 {
		return f.out, f.err()
	}
	if top := f.parse(text); top != nil {
		f.fields(top, "fleet file", map[string]func(*yaml.Node){
			"policy":  f.policy,
			"classes": f.each("class", f.class),
			"groups":  f.each("group", f.group),
			"nodes":   f.each("node", f.node),
			"owns":    f.owns,
			"config":  f.config,
			"secrets": f.each("secret", f.secret),
		})
	}
	return f.out, f.err()
}

type fileReader struct {
	reader
	out File
}

// each returns a reader of a mapping from names to items. The reader records the line of each item.
func (f *fileReader) each(kind string, read func(name string, n *yaml.Node) error) func(*yaml.Node) {
	return func(n *yaml.Node) {
		f.entries(n, kind, func(key, value *yaml.Node) {
			item := kind + " " + key.Value
			f.out.Lines[item] = key.Line
			name := key.Value
			if kind != "secret" {
				name = f.lower(key.Line, name)
			}
			before := len(f.list)
			if err := read(name, value); err != nil && len(f.list) == before {
				f.add(key.Line, "", "%v", err)
			}
		})
	}
}

func (f *fileReader) policy(n *yaml.Node) {
	p := &api.Policy{}
	f.fields(n, "policy", map[string]func(*yaml.Node){
		"adoption": func(n *yaml.Node) {
			p.Adoption = value(
				&f.reader,
				n,
				func(s string) (fleet.AdoptionPolicy, error) { return fleet.AdoptionPolicy(s), nil },
			)
		},
		"naming": func(n *yaml.Node) { p.Naming = f.text(n) },
	})
	switch p.Adoption {
	case "", fleet.Open, fleet.Approve:
	default:
		f.add(n.Line, "", "adoption policy %q: want open or approve", p.Adoption)
	}
	if p.Naming != "" {
		if _, err := fleet.ParseNaming(p.Naming); err != nil {
			f.add(n.Line, "", "%v", err)
		}
	}
	f.out.Policy = p
}

func (f *fileReader) owns(n *yaml.Node) {
	f.fields(n, "owns", map[string]func(*yaml.Node){
		"nodes":   func(n *yaml.Node) { f.out.Owns.Nodes = f.text(n) },
		"groups":  func(n *yaml.Node) { f.out.Owns.Groups = f.words(n) },
		"classes": func(n *yaml.Node) { f.out.Owns.Classes = f.words(n) },
		"config":  func(n *yaml.Node) { f.out.Owns.Config = f.words(n) },
	})
	if set := f.out.Owns.Nodes; set != "" {
		if _, err := fleet.ParseSet(set); err != nil {
			f.add(n.Line, "", "%v", err)
		}
	}
}

func (f *fileReader) class(name string, n *yaml.Node) error {
	c := fleet.Class{Name: name}
	list := func(to *[]string) func(*yaml.Node) { return func(n *yaml.Node) { *to = f.words(n) } }
	f.fields(n, "class "+name, map[string]func(*yaml.Node){
		"match": func(n *yaml.Node) {
			f.fields(n, "match of class "+name, map[string]func(*yaml.Node){
				"vendor": list(&c.Match.Vendor), "product": list(&c.Match.Product), "cpu": list(&c.Match.CPU),
				"architecture": list(&c.Match.Architecture), "pci": list(&c.Match.PCI),
			})
		},
		fleet.SettingKernelArgs: list(&c.KernelArgs),
	})
	f.out.Classes = append(f.out.Classes, c)
	return c.Validate()
}

func (f *fileReader) group(name string, n *yaml.Node) error {
	g := fleet.Group{Name: name}
	known := f.settings(&g.Settings)
	known[fleet.SettingImage] = func(n *yaml.Node) { g.Image = fleet.Ref(f.text(n)) }
	known["follow"] = func(n *yaml.Node) { g.Follow = value(&f.reader, n, fleet.ParseBool) }
	known[fleet.SettingKernelArgs] = func(n *yaml.Node) { g.KernelArgs = f.words(n) }
	f.fields(n, "group "+name, known)
	g.Settings = g.Settings.Normal()
	f.out.Groups = append(f.out.Groups, g)
	return g.Validate()
}

// settings returns readers for the keys of the settings table, which groups and nodes share.
func (f *fileReader) settings(s *fleet.Settings) map[string]func(*yaml.Node) {
	known := map[string]func(*yaml.Node){}
	for _, x := range fleet.SettingTable() {
		known[x.Key] = func(n *yaml.Node) {
			words := []string{}
			if x.Kind == fleet.KindList {
				words = f.words(n)
			} else {
				words = append(words, f.text(n))
			}
			if err := x.Set(s, words...); err != nil {
				f.add(f.real(n).Line, "", "%v", err)
			}
		}
	}
	return known
}

func (f *fileReader) node(name string, n *yaml.Node) error {
	d, _ := f.nodeOf(name, n)
	d.Group = f.lower(n.Line, d.Group)
	f.out.Nodes = append(f.out.Nodes, d)
	return valid(d)
}

// nodeOf reads the declaration of a node, and returns which keys were given.
func (f *fileReader) nodeOf(name string, n *yaml.Node) (d api.NodeDeclare, given []string) {
	d.Name = name
	known := f.settings(&d.Settings)
	macs := func(n *yaml.Node) {
		for _, text := range f.words(n) {
			m, err := parseMAC(text)
			if err != nil {
				f.add(n.Line, "", "node %s: %v", d.Name, err)
			}
			d.MACs = append(d.MACs, m)
		}
	}
	known["name"] = func(n *yaml.Node) { d.Name = f.text(n) }
	known["mac"], known["macs"] = macs, macs
	known["serial"] = func(n *yaml.Node) { d.Serial = f.text(n) }
	known["group"] = func(n *yaml.Node) { d.Group = f.text(n) }
	known["address"] = func(n *yaml.Node) { d.Address = value(&f.reader, n, parseAddress) }
	known["labels"] = func(n *yaml.Node) {
		d.Labels = map[string]string{}
		f.entries(n, "labels", func(key, v *yaml.Node) { d.Labels[key.Value] = f.text(v) })
	}
	known[fleet.SettingImage] = func(n *yaml.Node) { d.Version = fleet.Ref(f.text(n)) }
	known["follow"] = func(n *yaml.Node) { d.Follow = value(&f.reader, n, fleet.ParseBool) }
	known[fleet.SettingKernelArgs] = func(n *yaml.Node) { d.KernelArgs = f.words(n) }
	if name != "" {
		delete(known, "name")
	}
	given = f.fields(n, "node "+name, known)
	if slices.Contains(given, "mac") && slices.Contains(given, "macs") {
		f.add(n.Line, "", "node %s: mac and macs are the same: give one", name)
	}
	return d, given
}

// valid checks a node as far as this is possible without the fleet.
func valid(d api.NodeDeclare) error {
	n := fleet.Node{
		Name:       d.Name,
		MACs:       d.MACs,
		State:      fleet.Adopted,
		Group:      d.Group,
		Labels:     d.Labels,
		Version:    d.Version,
		Follow:     d.Follow,
		KernelArgs: d.KernelArgs,
		Serial:     d.Serial,
		Settings:   d.Settings,
	}
	if d.Group != "" {
		if err := fleet.ValidName("group", d.Group); err != nil {
			return err
		}
	}
	return n.Validate()
}
