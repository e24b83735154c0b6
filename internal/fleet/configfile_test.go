package fleet

import (
	"strings"
	"testing"
)

func TestScopes(t *testing.T) {
	for text, want := range map[string]string{"all": "all", "@all": "all", "@lab": "group:lab",
		"group:lab": "group:lab", "class:nvidia": "class:nvidia",
		"node:pc001.lab": "node:pc001.lab"} {
		s, err := ParseScope(text)
		if err != nil || s.String() != want {
			t.Errorf("%q: %q, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "lab", "group:", "group", "all:lab", "node:PC", "class:a/b", "label:a"} {
		if s, err := ParseScope(text); err == nil {
			t.Errorf("%q was taken as %q", text, s)
		}
	}
}

// The node's own file wins over one of its classes, a class's file over its group's, and that over the file for all
// nodes.
func TestConfigFilesOf(t *testing.T) {
	file := func(scope, path string) ConfigFile {
		s, err := ParseScope(scope)
		if err != nil {
			t.Fatal(err)
		}
		return ConfigFile{For: s, Path: path}
	}
	all := []ConfigFile{
		file("node:pc1", "/a"),
		file("class:b", "/b"),
		file("class:a", "/b"),
		file("class:a", "/a"),
		file("group:lab", "/b"),
		file(
			"group:lab",
			"/c",
		),
		file("all", "/c"),
		file("all", "/d"),
		file("group:other", "/e"),
		file("node:pc2", "/e"),
		file("class:none", "/e"),
	}
	got := ConfigFilesOf(Node{Name: "pc1", Group: "lab"}, []Class{{Name: "a"}, {Name: "b"}}, all)
	var text []string
	for _, f := range got {
		text = append(text, f.Path+"="+f.For.String())
	}
	if want := "/a=node:pc1 /b=class:b /c=group:lab /d=all"; strings.Join(text, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(text, " "), want)
	}
}

func TestConfigFileValidate(t *testing.T) {
	good := ConfigFile{
		For:   Scope{Kind: ForAll},
		Path:  "/etc/motd",
		Mode:  0o4755,
		Owner: "slurm:_grp",
		Run:   "systemctl restart x",
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*ConfigFile){
		"parent":      func(f *ConfigFile) { f.Path = "/etc/../root/x" },
		"relative":    func(f *ConfigFile) { f.Path = "etc/motd" },
		"directory":   func(f *ConfigFile) { f.Path = "/etc/" },
		"root":        func(f *ConfigFile) { f.Path = "/" },
		"proc":        func(f *ConfigFile) { f.Path = "/proc/sys/kernel/hostname" },
		"run":         func(f *ConfigFile) { f.Path = "/run/pando/session.json" },
		"line break":  func(f *ConfigFile) { f.Path = "/etc/a\nb" },
		"long path":   func(f *ConfigFile) { f.Path = "/" + strings.Repeat("a", 255) },
		"large":       func(f *ConfigFile) { f.Content = make([]byte, MaxConfigFile+1) },
		"mode":        func(f *ConfigFile) { f.Mode = 0o10000 },
		"owner":       func(f *ConfigFile) { f.Owner = "a b" },
		"no owner":    func(f *ConfigFile) { f.Owner = ":" },
		"run of two":  func(f *ConfigFile) { f.Run = "true\nfalse" },
		"no scope":    func(f *ConfigFile) { f.For = Scope{} },
		"empty group": func(f *ConfigFile) { f.For = Scope{Kind: ForGroup} },
	} {
		f := good
		change(&f)
		if f.Validate() == nil {
			t.Errorf("%s: taken: %+v", name, f)
		}
	}
}

// FuzzScope: a scope that is accepted is printed in a form that parses to the same scope.
func FuzzScope(f *testing.F) {
	for _, s := range []string{"all", "@lab", "class:a", "node:pc001", "group:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScope(text)
		if err != nil {
			return
		}
		if again, err := ParseScope(s.String()); err != nil || again != s {
			t.Errorf("%q is %q, which reads as %q, %v", text, s, again, err)
		}
	})
}
