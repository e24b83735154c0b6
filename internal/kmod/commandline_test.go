package kmod

import (
	"reflect"
	"testing"
)

func TestParseCommandLine(t *testing.T) {
	got := ParseCommandLine(
		`BOOT_IMAGE=x quiet pando.boot=0123456789abcdef BOOTIF=01-52-54-00-12-34-56 init=/bin/systemd ` +
			`modprobe.blacklist=nouveau,i40e-x nbd.nbds-max=3 "tg3.a=b c" console=ttyS0` + "\n",
	)
	if got.Boot != "0123456789abcdef" || got.MAC.String() != "52:54:00:12:34:56" || got.Init != "/bin/systemd" {
		t.Errorf("got %+v", got)
	}
	if !got.Blacklist["nouveau"] || !got.Blacklist["i40e_x"] {
		t.Errorf("blacklist %v", got.Blacklist)
	}
	want := map[string][]string{"nbd": {"nbds-max=3"}, "tg3": {"a=b c"}}
	if !reflect.DeepEqual(got.Options, want) {
		t.Errorf("options %v, want %v", got.Options, want)
	}
}

func TestParseCommandLineForgives(t *testing.T) {
	got := ParseCommandLine("BOOTIF=nonsense pando.boot .x= =y init")
	if !got.MAC.IsZero() || got.Boot != "" || got.Init != "" || len(got.Options) != 0 {
		t.Errorf("got %+v, want nothing", got)
	}
}

func FuzzParseCommandLine(f *testing.F) {
	f.Add(`pando.boot=1 "a b"=c BOOTIF=01-52-54-00-12-34-56`)
	f.Add(`"unclosed`)
	f.Fuzz(func(t *testing.T, line string) {
		c := ParseCommandLine(line)
		for module := range c.Options {
			if module == "" {
				t.Error("options of a module without a name")
			}
		}
	})
}
