package fleetfile

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

const lab = `# the lab
policy: {adoption: approve, naming: 'pc[001-]'}
owns: {nodes: '@lab', groups: [lab, old*]}
classes:
  nvidia:
    match: {pci: '10de:*:03*'}
    kernel_args: [nomodeset]
groups:
  default:
  lab: &lab
    image: debian:stable
    peers: on
    cache: disk
    cache_size: 16GB
    offline: yes
    power: "ipmi://admin@{bmc}"
    hours: Mon-Fri 07:45-22:00; Europe/Berlin
    sweep: yes
    reboot_after: never
    authorized_keys:
      - ssh-ed25519 AAAA me@here
  lab2: *lab
nodes:
  pc001:
    mac: 525400123456
    group: lab
    labels: {room: b12, rack: 7}
    address: 10.0.0.11
    write_limit: default
    peers: off
  pc002: {serial: CZC1234567, image: debian:next, cache: disk, cache_size: 64MB, authorized_keys: []}
`

func TestParse(t *testing.T) {
	f, err := Parse("lab.yaml", []byte(lab))
	if err != nil {
		t.Fatal(err)
	}
	g := fleet.Group{
		Name:  "lab",
		Image: "debian:stable",
		Settings: fleet.Settings{
			Peers:          new(fleet.PeersOn),
			Cache:          new(fleet.CacheDisk),
			CacheSize:      new(int64(16e9)),
			Offline:        new(true),
			Power:          new(fleet.Power("ipmi://admin@{bmc}")),
			Hours:          new(fleet.Hours("Mon-Fri 07:45-22:00; Europe/Berlin")),
			Sweep:          new(true),
			RebootAfter:    new(time.Duration(-1)),
			AuthorizedKeys: &[]string{"ssh-ed25519 AAAA me@here"},
		},
	}
	g2 := g
	g2.Name = "lab2"
	off, limit, cache, size, keys := fleet.PeersOff, "", fleet.CacheDisk, int64(64e6), []string{}
	want := api.Declaration{
		Policy: &api.Policy{Adoption: "approve", Naming: "pc[001-]"},
		Classes: []fleet.Class{
			{Name: "nvidia", Match: fleet.Match{PCI: []string{"10de:*:03*"}}, KernelArgs: []string{"nomodeset"}},
		},
		Groups: []fleet.Group{{Name: "default"}, g, g2},
		Nodes: []api.NodeDeclare{
			{
				NodeCreate: api.NodeCreate{
					Name:  "pc001",
					MACs:  []fleet.MAC{{0x52, 0x54, 0, 0x12, 0x34, 0x56}},
					Group: "lab",
					Labels: map[string]string{
						"room": "b12",
						"rack": "7",
					},
					Address:  "10.0.0.11",
					Settings: fleet.Settings{Peers: &off, WriteLimit: &limit},
				},
			},
			{NodeCreate: api.NodeCreate{Name: "pc002", Serial: "CZC1234567", Version: "debian:next",
				Settings: fleet.Settings{Cache: &cache, CacheSize: &size, AuthorizedKeys: &keys}}},
		},
		Owns: api.Owns{Nodes: "@lab", Groups: []string{"lab", "old*"}},
	}
	if !reflect.DeepEqual(f.Declaration, want) {
		t.Errorf("got\n%+v\nwant\n%+v", f.Declaration, want)
	}
	if f.Lines["group lab2"] != 22 || f.Lines["node pc001"] != 24 {
		t.Errorf("lines: %v", f.Lines)
	}
}

// TestParseRefuses: every error names the line.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "x.yaml: it is empty",
		"[]":                                     "x.yaml:1: fleet file: want keys",
		"a: [":                                   "x.yaml: line 1",
		"group: {}":                              `x.yaml:1: fleet file: unknown key "group"; did you mean "groups"?`,
		"groups:\n  lab: {imag: x}":              `x.yaml:2: group lab: unknown key "imag"; did you mean "image"?`,
		"groups:\n  lab: {xxxxxxx: 1}":           `unknown key "xxxxxxx"; the keys are authorized_keys`,
		"groups:\n  a: {}\n  a: {}":              `x.yaml:3: group: "a" stands in line 2 already`,
		"groups:\n  a:\n    cache_size: much":    `x.yaml:3: cache size: "much" is no size`,
		"groups:\n  a:\n    peers: some":         "x.yaml:2: group a: peers",
		"groups:\n  a:\n    reboot_after: soon":  `x.yaml:3: reboot after: "soon" is no time`,
		"groups:\n  a:\n    unlock_root: maybe":  `x.yaml:3: unlock root: "maybe": want true or false`,
		"groups:\n  a:\n    image: [x]":          "x.yaml:3: want one value",
		"groups:\n  a:\n    kernel_args: {a: b}": "x.yaml:3: want a list",
		"groups:\n  all: {}":                     "means a set of nodes",
		"nodes:\n  pc1:\n    mac: 1:2":           "x.yaml:3: node pc1: MAC address",
		"nodes:\n  pc1:\n    address: here":      `x.yaml:3: address "here"`,
		"nodes:\n  pc1: {name: pc2}":             `unknown key "name"`,
		"nodes:\n  pc1: {mac: a, macs: b}":       "give one",
		"nodes:\n  pc!1: {serial: x}":            "x.yaml:2: node name",
		"nodes:\n  PC1: {serial: x}":             "x.yaml:2: names are written in lower case",
		"nodes:\n  pc1: {labels: {a b: c}}":      "x.yaml:2: node pc1: label",
		"nodes:\n  pc1: {cache_size: 1GB}":       "cache size belongs to a cache",
		"classes:\n  x: {match: {pcie: y}}":      `did you mean "pci"?`,
		"classes:\n  x: {}":                      "nothing says which hardware",
		"policy: {adoption: never}":              "want open or approve",
		"policy: {naming: pc}":                   "naming rule",
		"owns: {nodes: 'pc['}":                   "brackets",
		"a: &a [*a]":                             "x.yaml",
		"nodes: {? [a] : b}":                     "a key is one word",
	} {
		_, err := Parse("x.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	_, err := Parse("x.yaml", []byte("groups:\n  a: {x: 1}\n  b: {y: 1}\nnodes:\n  pc1: {mac: z}\n"))
	if n := strings.Count(fmt.Sprint(err), "\n") + 1; n != 3 {
		t.Errorf("%d errors were told, want all 3: %v", n, err)
	}
}

// random returns a valid declaration with random content of all kinds.
func random(r *rand.Rand) api.Declaration {
	odd := []string{
		"a",
		"b 12",
		"on",
		"yes",
		"1e3",
		"null",
		"~",
		"0x1",
		"52:54:00",
		"#x",
		"- y",
		"ü: z",
		"{}",
		"'",
		"2026-11-22",
		"<<",
		"true",
	}
	pick := func() string { return odd[r.IntN(len(odd))] }
	some := func() bool { return r.IntN(2) == 0 }
	settings := func() (o fleet.Settings) {
		if some() {
			o.AuthorizedKeys = &[]string{"ssh-ed25519 AAAA " + pick()}
		}
		if some() {
			v := some()
			o.UnlockRoot = &v
		}
		if some() {
			v := []time.Duration{0, -1, time.Minute, 90 * time.Second}[r.IntN(4)]
			o.RebootAfter = &v
		}
		if some() {
			v := []string{"", "50%", "2g"}[r.IntN(3)]
			o.WriteLimit = &v
		}
		if some() {
			v := []fleet.PeerPolicy{"", "on", "off", "rack"}[r.IntN(4)]
			o.Peers = &v
		}
		if some() {
			v, size, offline := fleet.CacheDisk, []int64{0, 8e9, 64e6 + 512}[r.IntN(3)], some()
			o.Cache, o.CacheSize, o.Offline = &v, &size, &offline
		}
		if some() {
			v := []fleet.SecretPolicy{"", fleet.SecretsApprove, fleet.SecretsTPM + ",wait"}[r.IntN(3)]
			o.Secrets = &v
		}
		return o
	}
	d := api.Declaration{Policy: &api.Policy{Adoption: fleet.Open, Naming: "pc[001-]"}}
	for i := range r.IntN(4) {
		content := []byte(pick() + "\n\t{{.Name}} \r\n" + pick())
		if some() {
			content = append(content, 0, 0xff)
		}
		d.Config = append(
			d.Config,
			fleet.ConfigFile{
				For:      fleet.Scope{Kind: fleet.ForNode, Name: fmt.Sprint("pc", i)},
				Path:     "/etc/a b",
				Content:  content,
				Verbatim: some(),
				Mode:     uint32(r.IntN(2) * 0o640),
				Owner:    []string{"", "0:0", "a:b"}[r.IntN(3)],
				Run:      []string{"", pick()}[r.IntN(2)],
			},
		)
	}
	for i := range r.IntN(3) {
		scopes := []fleet.Scope{
			{Kind: fleet.ForGroup, Name: "lab"},
			{Kind: fleet.ForAll},
			{Kind: fleet.ForNode, Name: "pc1"},
		}
		d.Secrets = append(d.Secrets, fleet.Secret{Name: fmt.Sprint("s", i), For: scopes[:r.IntN(4)]})
	}
	for i := range r.IntN(3) {
		d.Classes = append(
			d.Classes,
			fleet.Class{
				Name:       fmt.Sprint("c", i),
				Match:      fleet.Match{Vendor: []string{odd[r.IntN(5)]}, PCI: []string{"8086:*"}},
				KernelArgs: []string{"a=" + fmt.Sprint(i)},
			},
		)
	}
	for i := range 1 + r.IntN(3) {
		g := fleet.Group{Name: fmt.Sprint("g", i), Image: "lab", Settings: settings().Normal()}
		d.Groups = append(d.Groups, g)
	}
	for i := range r.IntN(5) {
		n := api.NodeDeclare{
			NodeCreate: api.NodeCreate{
				Name:     fmt.Sprintf("pc%03d", i),
				Serial:   "S-" + fmt.Sprint(i),
				Group:    "g0",
				Settings: settings(),
			},
		}
		if some() {
			n.MACs = []fleet.MAC{{2, 0, 0, 0, 1, byte(i)}, {2, 0, 0, 0, 2, byte(i)}}
		}
		if some() {
			n.Labels = map[string]string{"room": pick(), "on": pick()}
		}
		if some() {
			n.Address, n.Version, n.KernelArgs = fmt.Sprint("10.0.0.", i+1), "lab", []string{"no", "12", "~"}
		}
		d.Nodes = append(d.Nodes, n)
	}
	if some() {
		d.Owns = api.Owns{Nodes: "@g0!pc001", Groups: []string{"*"}}
	}
	return d
}

// TestEncodeIsReadBack: every declaration is the same after Encode and Parse.
func TestEncodeIsReadBack(t *testing.T) {
	for seed := range uint64(500) {
		want := random(rand.New(rand.NewPCG(seed, 1)))
		text, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse("export", text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if !reflect.DeepEqual(got.Declaration, want) {
			t.Fatalf("seed %d: got\n%+v\nwant\n%+v\n%s", seed, got.Declaration, want, text)
		}
	}
}

// TestInvisibleTextIsEscaped: what would control a terminal is an escape in a written file, and is read back.
func TestInvisibleTextIsEscaped(t *testing.T) {
	const text = "a\u202eb\x1b[2J\u2028\U000e0001c"
	want := api.Declaration{
		Nodes: []api.NodeDeclare{{NodeCreate: api.NodeCreate{Name: "pc001", Labels: map[string]string{"seat": text}}}},
		Config: []fleet.ConfigFile{{For: fleet.Scope{Kind: fleet.ForNode, Name: "pc001"}, Path: "/etc/x",
			Content: []byte("\tplain\n" + text + "\n")}},
	}
	file, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(string(file), invisible) {
		t.Errorf("%q", file)
	}
	got, err := Parse("export", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	if seat := got.Nodes[0].Labels["seat"]; seat != text || string(got.Config[0].Content) != "\tplain\n"+text+"\n" {
		t.Errorf("read back: %q, %q", seat, got.Config[0].Content)
	}
}

func TestParseTable(t *testing.T) {
	for _, text := range []string{
		"\xef\xbb\xbfname,mac,group,labels,label:seat,address\r\npc001,52:54:00:00:00:01,lab,room=b12 " +
			"rack=r3,1,10.0.0.1\r\n\r\n# spare\r\npc002,\"52-54-00-00-00-02 525400000003\",,,,\r\n",
		"Name;MAC;Group;Labels;label:seat;Address\npc001;52:54:00:00:00:01;lab;room=b12,rack=r3;1;10.0.0.1\npc002;52-54-00-00-00-02 525400000003;;;;\n",
		"name\tmac\tgroup\tlabels\tlabel:seat\taddress\npc001\t52:54:00:00:00:01\tlab\troom=b12;rack=r3\t1\t10.0.0.1\npc002\t52-54-00-00-00-02 525400000003\t\t\t\t\n",
	} {
		f, err := ParseTable("room.csv", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		want := []api.NodeDeclare{
			{
				NodeCreate: api.NodeCreate{
					Name:    "pc001",
					MACs:    []fleet.MAC{{0x52, 0x54, 0, 0, 0, 1}},
					Group:   "lab",
					Address: "10.0.0.1",
					Labels: map[string]string{
						"room": "b12",
						"rack": "r3",
						"seat": "1",
					},
				},
				Only: []string{"name", "macs", "group", "labels", "label:seat", "address"},
			},
			{
				NodeCreate: api.NodeCreate{
					Name: "pc002",
					MACs: []fleet.MAC{{0x52, 0x54, 0, 0, 0, 2}, {0x52, 0x54, 0, 0, 0, 3}},
				},
				Only: []string{"name", "macs", "labels", "label:seat", "address"},
			},
		}
		if !reflect.DeepEqual(f.Nodes, want) {
			t.Errorf("got\n%+v\nwant\n%+v", f.Nodes, want)
		}
		if f.Lines["node pc001"] != 2 {
			t.Errorf("lines: %v", f.Lines)
		}
	}
	f, err := ParseTable(
		"room.yaml",
		[]byte(
			"- {name: pc001, mac: 52:54:00:00:00:01, labels: {room: b12}}\n- name: pc002\n  serial: X123\n  "+
				"peers: off\n",
		),
	)
	if err != nil || len(f.Nodes) != 2 || f.Nodes[1].Serial != "X123" ||
		strings.Join(f.Nodes[1].Only, " ") != "name serial peers" {
		t.Errorf("%+v, %v", f.Nodes, err)
	}
}

// TestParseTableRefuses: every error names line and column.
func TestParseTableRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "room.csv:1: the first line names",
		"mac\n":                         "room.csv:1: there is no column name",
		"name,colour\n":                 "room.csv:1: column colour: unknown column",
		"name,name\n":                   "room.csv:1: column name: there are two",
		"name,label:a b\n":              "room.csv:1: column label:a b: label",
		"name,mac\npc1,zz\n":            "room.csv:2: column mac: MAC address",
		"name,mac\npc1\n":               "room.csv:2: it has 1 cells",
		"name,mac\nPC 1,\n":             "room.csv:2: column name: node name",
		"name,serial\n,x\n":             "room.csv:2: column name: node name",
		"name,address\npc1,1.2.3\n":     "room.csv:2: column address: address",
		"name,address\npc1,::1\n":       "room.csv:2: column address",
		"name,labels\npc1,room\n":       "room.csv:2: column labels: label",
		"name,group\npc1,A B\n":         "room.csv:2: column group: group name",
		"name,image\npc1,a:b:c\n":       "room.csv:2: node pc1",
		"name,serial\n\npc1,a\npc1,b\n": "room.csv:4: column name: pc1 stands in line 3 already",
		"name,mac\na,020000000001\nb,02:00:00:00:00:01\n": "room.csv:3: column mac: 02:00:00:00:00:01 stands in " +
			"line 2 already",
		"name,mac\n\"a,b\n": "room.csv:2: column",
	} {
		_, err := ParseTable("room.csv", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"nodes: {}":          "want a list of nodes",
		"- {serial: x}":      "room.yaml:1: column name: the node has no name",
		"- {name: a, mc: x}": `did you mean "mac"?`,
		"- {name: a, serial: x}\n- {name: b, serial: x}": "room.yaml:2: column serial: x stands in line 1 already",
	} {
		_, err := ParseTable("room.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// Config files have their content in the fleet file or in a file beside it. Errors name the line.
func TestParseConfig(t *testing.T) {
	f, err := Parse(
		"fleet.yaml",
		[]byte(
			"config:\n  '@lab':\n    /etc/motd: {from: motd.tmpl, mode: 0640, owner: a:b}\n  all:\n    /etc/x:\n  "+
				"    verbatim: true\n      content: |\n        one\n",
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []fleet.ConfigFile{
		{For: fleet.Scope{Kind: fleet.ForGroup, Name: "lab"}, Path: "/etc/motd", Mode: 0o640, Owner: "a:b"},
		{For: fleet.Scope{Kind: fleet.ForAll}, Path: "/etc/x", Verbatim: true, Content: []byte("one\n")},
	}
	if !reflect.DeepEqual(f.Config, want) || f.From[0] != "motd.tmpl" || f.Lines["config file /etc/x of all"] != 5 {
		t.Errorf("got %+v, %v, %v", f.Config, f.From, f.Lines)
	}
	for text, want := range map[string]string{
		"config:\n  lab: {}":                                   "fleet.yaml:2: \"lab\" does not say for which nodes",
		"config:\n  all:\n    /etc/../x: {content: a}":         "fleet.yaml:3: config file",
		"config:\n  all:\n    /etc/x: {mode: 0999}":            "fleet.yaml:3: \"0999\" are no permission bits",
		"config:\n  all:\n    /etc/x: {content: a, from: b}":   "content and from are the same",
		"config:\n  all:\n    /etc/x: {verbatim: true}":        "it has no content",
		"config:\n  all:\n    /etc/x: {contents: a}":           "did you mean \"content\"",
		"config:\n  all:\n    /etc/x: {content: !!binary '@'}": "content: illegal base64",
	} {
		if _, err := Parse("fleet.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// A fleet file has the scopes of secrets, and never their values.
func TestParseSecrets(t *testing.T) {
	f, err := Parse("fleet.yaml", []byte("secrets:\n  munge: {for: ['@cluster', node:pc001]}\n  token: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []fleet.Secret{
		{
			Name: "munge",
			For:  []fleet.Scope{{Kind: fleet.ForGroup, Name: "cluster"}, {Kind: fleet.ForNode, Name: "pc001"}},
		},
		{Name: "token", For: []fleet.Scope{}},
	}
	if !reflect.DeepEqual(f.Secrets, want) || f.Lines["secret token"] != 3 {
		t.Errorf("got %+v, %v", f.Secrets, f.Lines)
	}
	for text, want := range map[string]string{
		"secrets:\n  munge: {for: lab}": "fleet.yaml:2: secret munge: \"lab\" does not say for which nodes",
		"secrets:\n  munge: {for: all, value: hush}": "fleet.yaml:2: secret munge: a fleet file has no values of " +
			"secrets",
		"secrets:\n  ../munge: {for: all}":           "fleet.yaml:2: ",
		"secrets:\n  munge: {whom: all}":             "unknown key",
		"secrets:\n  munge: {for: all}\n  munge: {}": "munge",
	} {
		if _, err := Parse("fleet.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// FuzzParse: every fleet file is refused, or its declaration is the same after Encode and Parse.
func FuzzParse(f *testing.F) {
	f.Add([]byte(lab))
	f.Add([]byte("nodes: {a: {labels: {on: off}}, b: *x}"))
	f.Add([]byte("a: &a {b: *a}\n"))
	f.Add([]byte("config: {all: {/etc/x: {content: !!binary AAE=, mode: 0640}}, 'group:lab': {/etc/y: {from: z}}}"))
	f.Add([]byte("secrets: {munge: {for: ['@lab', all]}, token: {for: node:pc1}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Parse("x", text)
		if err != nil {
			return
		}
		again, err := Encode(got.Declaration)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse("y", again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if a, b := len(back.Nodes), len(got.Nodes); a != b {
			t.Fatalf("%d nodes became %d", b, a)
		}
	})
}

// FuzzParseTable: a table is refused, or every node in it is valid.
func FuzzParseTable(f *testing.F) {
	f.Add("room.csv", []byte("name,mac,label:x\npc1,020000000001,y\n"))
	f.Add("room.csv", []byte("name;serial\n\"a\nb\";c"))
	f.Add("room.yaml", []byte("- {name: pc1, mac: 02:00:00:00:00:01}"))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		got, err := ParseTable(name, text)
		if err != nil {
			return
		}
		for _, n := range got.Nodes {
			if err := valid(n); err != nil || got.Lines["node "+n.Name] == 0 {
				t.Fatalf("%+v: %v", n, err)
			}
		}
	})
}
