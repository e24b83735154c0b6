package fleet

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func as[T any](v T) *T { return &v }

// every returns settings of a node that all are set, most of them to their zero value.
func every() Settings {
	s := Settings{
		AuthorizedKeys: &[]string{"ssh-ed25519 AAAA own"},
		UnlockRoot:     as(true),
		RebootAfter:    as(time.Minute),
		WriteLimit:     as("2g"),
		Peers:          as(PeersOff),
		Cache:          as(CacheDisk),
		CacheSize:      as(int64(8e9)),
		Offline:        as(true),
		Power:          as(Power("none")),
		Hours:          as(Hours("08:00-20:00")),
		Sweep:          as(true),
		Secrets:        as(SecretsTPM),
	}
	for _, x := range SettingTable() {
		if !x.IsSet(s) {
			if err := x.Set(&s); err != nil {
				panic(err)
			}
		}
	}
	return s
}

func TestSettingsOfAGroup(t *testing.T) {
	g := Group{Name: "lab", Image: "lab", KernelArgs: []string{"quiet"}, Settings: Settings{
		Peers:      as(PeersRack),
		Cache:      as(CacheDisk),
		CacheSize:  as(int64(9e9)),
		Offline:    as(true),
		WriteLimit: as("10%"),
	}}
	if got := (Settings{}).Of(g); !reflect.DeepEqual(got, g) {
		t.Errorf("without settings of its own: %+v", got)
	}
	got := Settings{Cache: as(CacheRAM)}.Of(g)
	want := g
	want.Cache, want.CacheSize, want.Offline = as(CacheRAM), nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a cache of its own: %+v", got)
	}
	got = every().Of(g)
	if want.Settings = every(); !reflect.DeepEqual(got, want) {
		t.Errorf("every setting of its own: %+v", got)
	}
	if g.Peers == nil || *g.Peers != PeersRack || g.CacheSize == nil {
		t.Errorf("the group was changed: %+v", g)
	}
}

// TestSettingTable: each entry has all fields that its users need, and no two have the same name.
func TestSettingTable(t *testing.T) {
	known := map[string]bool{}
	for _, x := range SettingTable() {
		if x.Key == "" || x.Flag == "" || x.Kind == "" || x.Default == "" || x.Usage == "" {
			t.Errorf("something is missing: %+v", x)
		}
		for _, name := range []string{"key " + x.Key, "flag " + x.Flag, "flag " + x.FlagNone} {
			if known[name] && name != "flag " {
				t.Errorf("there are two of %s", name)
			}
			known[name] = true
		}
		if y, ok := FindSetting(x.Key); !ok || y.Flag != x.Flag {
			t.Errorf("%s is not found", x.Key)
		}
		if text := x.Text(Settings{}); text != x.Default {
			t.Errorf("%s: unset it is %q", x.Key, text)
		}
	}
	if got := reflect.TypeFor[Settings]().NumField() - 1 + reflect.TypeFor[Keeping]().NumField(); got != len(
		SettingTable(),
	) {
		t.Errorf("there are %d fields and %d lines", got, len(SettingTable()))
	}
}

// TestSettingKeys: the key of an entry is the JSON name of its field.
func TestSettingKeys(t *testing.T) {
	for _, x := range SettingTable() {
		var s Settings
		if err := x.Set(&s); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(s)
		if err != nil || !strings.HasPrefix(string(b), `{"`+x.Key+`":`) || strings.Count(string(b), ":") != 1 {
			t.Errorf("%s is %s, %v", x.Key, b, err)
		}
	}
}

// TestSettingWords: a setting's words parse to the same setting.
func TestSettingWords(t *testing.T) {
	for _, x := range SettingTable() {
		s := every()
		var back Settings
		if err := x.Set(&back, x.Items(s)...); err != nil {
			t.Fatal(err)
		}
		if !x.IsSet(back) || !slices.Equal(x.Items(back), x.Items(s)) || x.Text(back) != x.Text(s) {
			t.Errorf("%s: %q came back as %q", x.Key, x.Text(s), x.Text(back))
		}
		if err := x.Set(&back, "default"); x.Kind != KindList &&
			(err != nil || len(x.Items(back)) > 0 || x.Text(back) != x.Default) {
			t.Errorf("%s: default is %q, %v", x.Key, x.Items(back), err)
		}
		if err := x.Set(&back, x.Default); err != nil || x.Text(back) != x.Default || x.validate(back) != nil {
			t.Errorf("%s: the text of the default, %q, is %q, %v", x.Key, x.Default, x.Text(back), err)
		}
		if err := x.Set(&back, "a", "b"); x.Kind != KindList && err == nil {
			t.Errorf("%s takes two values", x.Key)
		}
	}
	for key, texts := range map[string][]string{"unlock_root": {"maybe"}, "cache_size": {"much", "-1MB"},
		"reboot_after": {"soon"}} {
		x, _ := FindSetting(key)
		for _, text := range texts {
			if err := x.Set(&Settings{}, text); err == nil || !strings.Contains(err.Error(), x.Label()) {
				t.Errorf("%s %q: %v", key, text, err)
			}
		}
	}
}

func TestSettingsDiff(t *testing.T) {
	was := Settings{WriteLimit: as("2g"), AuthorizedKeys: &[]string{"a b"}, Offline: as(false), Peers: as(PeersOn)}
	is := Settings{WriteLimit: as("3g"), AuthorizedKeys: &[]string{"c d"}, Sweep: as(true), Peers: nil}
	text := func(changes []SettingChange) (out []string) {
		for _, c := range changes {
			out = append(out, c.String())
		}
		return out
	}
	want := []string{"authorized keys: 1 keys -> 1 keys, others", "write limit: 2g -> 3g", "sweep: false -> true"}
	if got := text(was.Diff(is, "")); !slices.Equal(got[:2], want[:2]) || got[len(got)-1] != want[2] {
		t.Errorf("of groups: %q", got)
	}
	want = []string{
		"authorized keys: 1 keys -> 1 keys, others", "write limit: 2g -> 3g", "peers: on -> the group's",
		"offline: false -> the group's", "sweep: the group's -> true",
	}
	if got := text(was.Diff(is, "the group's")); !slices.Equal(got, want) {
		t.Errorf("of nodes: %q", got)
	}
	if got := every().Diff(every(), ""); len(got) > 0 {
		t.Errorf("the same differs: %q", text(got))
	}
}

// TestSettingsDropAndMerge: each setting can be listed, dropped alone, and restored by Merge.
func TestSettingsDropAndMerge(t *testing.T) {
	keys := func(s Settings) (out []string) {
		for _, x := range s.Explicit() {
			out = append(out, x.Key)
		}
		return out
	}
	if got := keys(every()); !slices.Equal(got, SettingKeys()) {
		t.Fatalf("set are %v", got)
	}
	for _, name := range SettingKeys() {
		s := every()
		if err := s.Drop(name); err != nil {
			t.Fatal(err)
		}
		left := slices.DeleteFunc(SettingKeys(), func(n string) bool {
			return n == name || name == SettingCache && (n == "cache_size" || n == "offline")
		})
		if !slices.Equal(keys(s), left) {
			t.Errorf("without %s: %v", name, keys(s))
		}
		if s.Merge(every()); !slices.Equal(keys(s), SettingKeys()) {
			t.Errorf("%s did not come back: %v", name, keys(s))
		}
	}
	s := every()
	if err := s.Drop("colour"); err == nil {
		t.Error("a setting that there is not was dropped")
	}
	if got := keys(every().Normal()); slices.Contains(got, "persist") || !slices.Contains(got, "peers") {
		t.Errorf("normal says %v", got)
	}
}

func TestSettingsValidate(t *testing.T) {
	for want, s := range map[string]Settings{
		"cache size belongs to a cache": {CacheSize: as(int64(8e9))},
		"set it with cache":             {Offline: as(true)},
		"want on, off or rack":          {Peers: as(PeerPolicy("some"))},
		"--cache disk":                  {Cache: as(CacheRAM), Offline: as(true)},
		"write limit":                   {WriteLimit: as("150%")},
		"authorized key":                {AuthorizedKeys: &[]string{"x"}},
	} {
		n := goodNode()
		n.Settings = s
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "node pc001") {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	n := goodNode()
	if n.Settings = every(); n.Validate() != nil {
		t.Error(n.Validate())
	}
}

func TestEffective(t *testing.T) {
	l := Layers{
		Node: Node{
			Name:       "pc1",
			Group:      "lab",
			Version:    "lab:canary",
			KernelArgs: []string{"single"},
			Settings: Settings{Peers: as(PeersOff), Cache: as(CacheRAM),
				Keeping: Keeping{Persist: &[]string{}}},
		},
		Group: Group{
			Name:       "lab",
			Image:      "lab:stable",
			KernelArgs: []string{"nomodeset"},
			Settings: Settings{
				Peers:      as(PeersRack),
				CacheSize:  as(int64(9e9)),
				Cache:      as(CacheDisk),
				WriteLimit: as("2g"),
				Keeping:    Keeping{StateOn: as("disk"), Persist: &[]string{"/var/log", "/srv/a"}},
			},
		},
		Hardware: Hardware{Vendor: "Dell Inc.", Product: "Wyse 5070", PCI: []string{"10de:1cb3:0300"}},
		Classes: []Class{
			{
				Name:       "wyse",
				Match:      Match{Vendor: []string{"hp", "dell*"}, Product: []string{"wyse 5070"}},
				KernelArgs: []string{"c=1"},
			},
			{
				Name:       "nvidia",
				Match:      Match{PCI: []string{"10de:*:03*"}},
				KernelArgs: []string{"nomodeset=1"},
			},
			{Name: "amd", Match: Match{PCI: []string{"1002"}}},
		},
		ImageArgs: []string{"quiet", "splash"}, RebootAfter: 10 * time.Minute,
	}
	var got []string
	for _, v := range Effective(l) {
		got = append(got, strings.TrimSuffix(v.Setting+" = "+v.Value+" ("+v.From+") "+strings.Join(v.Over, ", "), " "))
	}
	want := []string{
		"class = nvidia (PCI 10de:1cb3:0300 fits 10de:*:03*)",
		"class = wyse (vendor Dell Inc. fits dell*, product Wyse 5070)",
		"image = lab:canary (node) lab:stable of group lab",
		"kernel_args = quiet splash (image)",
		"kernel_args = nomodeset (group lab)",
		"kernel_args = nomodeset=1 (class nvidia)",
		"kernel_args = c=1 (class wyse)",
		"kernel_args = single (node)",
		"authorized_keys = none (default)",
		"unlock_root = false (default)",
		"reboot_after = 10m0s (default)",
		"write_limit = 2g (group lab)",
		"peers = off (node) rack of group lab",
		"kernel_from = neighbours (default)",
		"cache = ram (node) disk of group lab",
		"cache_size = 64MB (node) 9GB of group lab",
		"offline = false (node)",
		"secrets = mac (default)",
		"power = wol (default)",
		"hours = none (default)",
		"sweep = false (default)",
		"write_layer = tmpfs (default)", "state_on = disk (group lab)",
		"persist = none (node) /var/log, /srv/a of group lab",
		"mounts = none (default)",
		"swap = none (default)",
		"users = none (default)",
		"user_keys = none (default)",
		"sysctl = none (default)", "extensions = none (default)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	l.Node.Version, l.Rollout, l.Target, l.Classes = "", "lab-3", "lab:next", nil
	if v := Effective(l)[0]; v.Value != "lab:next" || v.From != "rollout lab-3" ||
		!slices.Equal(v.Over, []string{"lab:stable of group lab"}) {
		t.Errorf("with a rollout: %+v", v)
	}
	if v := Effective(Layers{Group: Group{Name: "default"}})[0]; v.Value != "none" || v.From != "default" {
		t.Errorf("a group without an image: %+v", v)
	}
}

func TestTellingSerial(t *testing.T) {
	for _, s := range []string{"CZC1234567", "S1", "5CD9 12", "VMware-56 4d", "pc-12", "Nonesuch7"} {
		if !TellingSerial(s) {
			t.Errorf("%q tells nothing", s)
		}
	}
	for _, s := range []string{"", " ", "0", "00000000", "None", "Default string", "To Be Filled By " +
		"O.E.M.", "System Serial Number", "0123456789", "N/A", "xxxxxxx", strings.Repeat("ab", 65)} {
		if TellingSerial(s) {
			t.Errorf("%q tells a machine from others", s)
		}
	}
}
