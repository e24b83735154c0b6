package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func as[T any](v T) *T { return &v }

// every is a node that has every setting of its own.
func every() Overrides {
	o := Overrides{
		AuthorizedKeys: &[]string{"ssh-ed25519 AAAA own"},
		UnlockRoot:     as(true),
		RebootAfter:    as(time.Minute),
		WriteLimit:     as("2g"),
		Peers:          as(PeersOff),
		Share:          as(int64(64e6)),
		Cache:          as(CacheDisk),
		CacheSize:      as(int64(8e9)),
		Offline:        as(true),
		Power:          as(Power("none")),
		Hours:          as(Hours("08:00-20:00")),
		Sweep:          as(true),
		Secrets:        as(SecretsTPM),
	}
	for _, f := range o.Keeping.Fields() {
		if f.Text != nil {
			*f.Text = as("")
		} else {
			*f.List = &[]string{}
		}
	}
	return o
}

func TestOverridesOfAGroup(t *testing.T) {
	g := Group{
		Name:       "lab",
		Image:      "lab",
		KernelArgs: []string{"quiet"},
		Peers:      PeersRack,
		Cache:      CacheDisk,
		CacheSize:  9e9,
		Offline:    true,
		WriteLimit: "10%",
	}
	if got := (Overrides{}).Of(g); groupDiffers(got, g) {
		t.Errorf("without overrides: %+v", got)
	}
	got := Overrides{Cache: as(CacheRAM)}.Of(g)
	if got.Cache != CacheRAM || got.CacheSize != 0 || got.Offline || got.Peers != PeersRack || got.WriteLimit != "10%" {
		t.Errorf("a cache of its own: %+v", got)
	}
	got = every().Of(g)
	want := Group{
		Name:           "lab",
		Image:          "lab",
		KernelArgs:     []string{"quiet"},
		AuthorizedKeys: []string{"ssh-ed25519 AAAA own"},
		UnlockRoot:     true,
		RebootAfter:    time.Minute,
		WriteLimit:     "2g",
		Peers:          PeersOff,
		Share:          64e6,
		Cache:          CacheDisk,
		CacheSize:      8e9,
		Offline:        true,
		Power:          "none",
		Hours:          "08:00-20:00",
		Sweep:          true,
		Secrets:        SecretsTPM,
	}
	if groupDiffers(got, want) {
		t.Errorf("every setting of its own: %+v", got)
	}
}

func groupDiffers(a, b Group) bool {
	keys := slices.Equal(a.AuthorizedKeys, b.AuthorizedKeys) && slices.Equal(a.KernelArgs, b.KernelArgs)
	x, y := a, b
	x.AuthorizedKeys, y.AuthorizedKeys, x.KernelArgs, y.KernelArgs = nil, nil, nil, nil
	return !keys || x.Name != y.Name || x.Image != y.Image || x.UnlockRoot != y.UnlockRoot || x.RebootAfter != y.RebootAfter ||
		x.WriteLimit != y.WriteLimit || x.Peers != y.Peers || x.Share != y.Share || x.Cache != y.Cache || x.CacheSize != y.CacheSize || x.Offline != y.Offline ||
		x.Power != y.Power || x.Hours != y.Hours ||
		x.Sweep != y.Sweep ||
		x.Secrets != y.Secrets
}

// TestOverridesDropAndMerge: each setting is named, can be dropped alone, and comes back by Merge.
func TestOverridesDropAndMerge(t *testing.T) {
	if got := every().Set(); !slices.Equal(got, OverrideNames()) {
		t.Fatalf("set are %v", got)
	}
	for _, name := range OverrideNames() {
		o := every()
		if err := o.Drop(name); err != nil {
			t.Fatal(err)
		}
		left := slices.DeleteFunc(OverrideNames(), func(n string) bool {
			return n == name || name == SettingCache && (n == SettingCacheSize || n == SettingOffline)
		})
		if !slices.Equal(o.Set(), left) {
			t.Errorf("without %s: %v", name, o.Set())
		}
		if o.Merge(every()); !slices.Equal(o.Set(), OverrideNames()) {
			t.Errorf("%s did not come back: %v", name, o.Set())
		}
	}
	o := every()
	if err := o.Drop("colour"); err == nil {
		t.Error("a setting that there is not was dropped")
	}
	if !(Overrides{}).IsZero() || every().IsZero() {
		t.Error("IsZero")
	}
}

func TestOverridesValidate(t *testing.T) {
	for want, o := range map[string]Overrides{
		"belong to a cache": {CacheSize: as(int64(8e9))},
		"set them with":     {Offline: as(true)},
		"on, off or rack":   {Peers: as(PeerPolicy("some"))},
		"--cache disk":      {Cache: as(CacheRAM), Offline: as(true)},
		"write limit":       {WriteLimit: as("150%")},
		"authorized key":    {AuthorizedKeys: &[]string{"x"}},
	} {
		n := goodNode()
		n.Overrides = o
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "node pc001") {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	n := goodNode()
	if n.Overrides = every(); n.Validate() != nil {
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
			Overrides: Overrides{Peers: as(PeersOff), Cache: as(CacheRAM),
				Keeping: Keeping{Persist: &[]string{}}},
		},
		Group: Group{
			Name:       "lab",
			Image:      "lab:stable",
			Peers:      PeersRack,
			KernelArgs: []string{"nomodeset"},
			CacheSize:  9e9,
			Cache:      CacheDisk,
			WriteLimit: "2g",
			Keeping:    Keeping{StateOn: as("disk"), Persist: &[]string{"/var/log", "/srv/a"}},
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
		"peers = off (node) rack of group lab",
		"share = as the node has memory (default)",
		"cache = ram (node) disk of group lab",
		"cache_size = 64MB (node) 9GB of group lab",
		"offline = false (node)",
		"secrets = mac (default)",
		"power = wol (default)",
		"hours = none (default)",
		"sweep = false (default)",
		"write_limit = 2g (group lab)",
		"reboot_after = 10m0s (default)",
		"unlock_root = false (default)",
		"authorized_keys = none (default)",
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
