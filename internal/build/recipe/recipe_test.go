package recipe

import (
	"errors"
	"os"
	"pando/internal/workdir"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBuiltinRecipes(t *testing.T) {
	if got := Builtins(); !slices.Equal(got, []string{"debian-desktop", "debian:bookworm", "debian:trixie"}) {
		t.Fatalf("built in: %q", got)
	}
	for _, name := range Builtins() {
		r, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"linux-image-" + r.Architecture, "systemd-sysv", "udev", "openssh-server",
			"kmod", "systemd-journal-remote"} {
			if !slices.Contains(r.Packages, want) {
				t.Errorf("%s: no %s in %q", name, want, r.Packages)
			}
		}
	}
}

func TestRecipeAddsToBuiltin(t *testing.T) {
	base, err := Load("debian:bookworm")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lab.yaml")
	text := "from: debian:bookworm\npackages: [firefox-esr]\ncommand_line: [quiet]\nfiles:\n  - path: /etc/motd\n " +
		"   content: hello\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Packages, append(slices.Clone(base.Packages), "firefox-esr")) || r.Suite != "bookworm" ||
		r.Text != text {
		t.Errorf("recipe: %+v", r)
	}
	if r.Key() == base.Key() {
		t.Error("another recipe, the same work directory")
	}
	quiet := *base
	quiet.CommandLine, quiet.Name = []string{"quiet"}, "other"
	if quiet.Key() != base.Key() {
		t.Error("the tree does not depend on the command line, its key does")
	}
}

func TestRecipeErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key": {"suite: bookworm\n\npackges: " +
			"[less]\n", `line 3: unknown key "packges"; did you mean "packages"?`},
		"far from any": {"suite: x\nfavourite_colour: red\n", `line 2: unknown key "favourite_colour"; the keys are`},
		"unknown in file": {"suite: x\nfiles:\n- path: /a\n- path: /b\n  contents: " +
			"x\n", `line 5: unknown key "contents"; did you mean "content"?`},
		"key twice":     {"suite: a\nsuite: b\n", "suite"},
		"empty":         {"# nothing\n", "from: debian:bookworm"},
		"no mapping":    {"- a\n- b\n", "line 1"},
		"wrong kind":    {"suite: x\npackages: less\n", "line 2: the value has the wrong kind: str"},
		"broken":        {"suite: [\n", "line"},
		"no suite":      {"packages: [less]\n", "suite"},
		"unknown base":  {"from: Debian Potato\n", "debian:bookworm, debian:trixie"},
		"architecture":  {"suite: x\narchitecture: vax\n", "amd64 or arm64"},
		"option":        {"suite: -x\n", "suite"},
		"package":       {"suite: x\npackages: ['less;reboot']\n", "not the name of a package"},
		"component":     {"suite: x\ncomponents: ['a,b']\n", "not a component"},
		"relative path": {"suite: x\nfiles: [{path: etc/motd}]\n", "absolute path"},
		"path upwards":  {"suite: x\nfiles: [{path: /../etc/motd}]\n", "absolute path"},
		"mode":          {"suite: x\nfiles: [{path: /a, mode: rwx}]\n", "octal"},
		"argument":      {"suite: x\ncommand_line: ['a b']\n", "command_line"},
		"image's suite": {"from: lab:stable\nsuite: bookworm\n", "leave them out"},
		"no key": {"suite: x\nrepositories: [{name: a, address: 'https://a.example'}]\n", "nothing is " +
			"taken without one"},
		"key is a path": {"suite: x\nrepositories: [{name: a, address: 'https://a.example', key: " +
			"/etc/key.asc}]\n", "the text of its key"},
		"no address":      {"suite: x\nrepositories: [{name: a, key: x}]\n", "want a URL"},
		"two of a name":   {"suite: x\nusers: [{name: a}, {name: a}]\n", "one of its own"},
		"plain password":  {"suite: x\nusers: [{name: a, password_hash: secret}]\n", "never the password"},
		"unknown in user": {"suite: x\nusers: [{name: a, password: secret}]\n", `unknown key "password"; the keys are`},
		"ssh key": {"suite: x\nusers: [{name: a, ssh_keys: ['-----BEGIN OPENSSH PRIVATE " +
			"KEY-----']}]\n", "that is a private key"},
		"two words as key": {"suite: x\nusers: [{name: a, ssh_keys: [foo bar]}]\n", "line of an OpenSSH public key"},
		"unknown in unit":  {"suite: x\nunits: {start: [a.service]}\n", `unknown key "start"`},
		"unit":             {"suite: x\nunits: {mask: ['a b']}\n", "not the name of a unit"},
		"locale":           {"suite: x\nlocale: german\n", "de_DE.UTF-8"},
		"timezone":         {"suite: x\ntimezone: ../../etc/shadow\n", "Europe/Berlin"},
		"kernel":           {"suite: x\nkernel: 'a b'\n", "not the name of a package"},
		"mirror":           {"suite: x\nmirrors: ['-o']\n", "mirrors"},
	} {
		_, err := Parse("lab.yaml", []byte(c.text))
		var re *Error
		if !errors.As(err, &re) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	if _, err := Load("debian:bookwurm"); err == nil ||
		!strings.Contains(err.Error(), "debian-desktop, debian:bookworm, debian:trixie") {
		t.Errorf("a recipe that is not there: %v", err)
	}
}

func FuzzParseRecipe(f *testing.F) {
	for _, name := range Builtins() {
		r, err := Load(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(r.Text))
	}
	f.Add([]byte("from: debian:bookworm\nfiles: [{path: /a/b, content: x, mode: '0600'}]\ncustomize: [true]\n"))
	f.Add([]byte("files: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		b := &Maker{Recipe: r, Work: &workdir.Dir{Path: t.TempDir()}}
		args, err := b.MmdebstrapArgs(r, "")
		if err != nil {
			t.Fatal(err)
		}
		last := len(args) - len(r.Mirrors)
		for _, arg := range args[last-2:] { // suite, target, mirrors
			if strings.HasPrefix(arg, "-") {
				t.Fatalf("%q would be an option", arg)
			}
		}
	})
}
