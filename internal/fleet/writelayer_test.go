package fleet

import "testing"

func TestWriteLayer(t *testing.T) {
	for text, want := range map[string]WriteLayer{"": {Kind: LayerMemory}, "tmpfs": {Kind: LayerMemory},
		"zram": {Kind: LayerZram},
		"disk": {Kind: LayerDisk}, "disk wipe": {Kind: LayerDisk}, "disk  keep": {Kind: LayerDisk, Keep: true}} {
		got, err := ParseWriteLayer(text)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"ram", "zram keep", "disk /dev/sda1", "disk keep wipe"} {
		s := Settings{Keeping: Keeping{WriteLayer: &text}}
		if err := s.validate(); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// Only nodes that need disk drivers get them.
func TestWantsDisks(t *testing.T) {
	zram, disk := "zram", "disk keep"
	for name, c := range map[string]struct {
		group Group
		want  bool
	}{
		"nothing": {Group{}, false}, "zram": {Group{Settings: Settings{Keeping: Keeping{WriteLayer: &zram}}}, false},
		"a cache":              {Group{Settings: Settings{Cache: as(CacheDisk)}}, true},
		"memory for the cache": {Group{Settings: Settings{Cache: as(CacheRAM)}}, false},
		"writes":               {Group{Settings: Settings{Keeping: Keeping{WriteLayer: &disk}}}, true},
	} {
		if got := c.group.WantsDisks(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
