package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBuiltinRecipes(t *testing.T) {
	if got := BuiltinRecipes(); !slices.Equal(got, []string{"debian-desktop", "debian:bookworm", "debian:trixie"}) {
		t.Fatalf("built in: %q", got)
	}
	for _, name := range BuiltinRecipes() {
		r, err := LoadRecipe(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"linux-image-" + r.Architecture, "systemd-sysv", "udev", "openssh-server", "kmod", "systemd-journal-remote"} {
			if !slices.Contains(r.Packages, want) {
				t.Errorf("%s: no %s in %q", name, want, r.Packages)
			}
		}
	}
}

func TestRecipeAddsToBuiltin(t *testing.T) {
	base, err := LoadRecipe("debian:bookworm")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lab.yaml")
	text := "from: debian:bookworm\npackages: [firefox-esr]\ncommand_line: [quiet]\nfiles:\n  - path: /etc/motd\n " +
		"   content: hello\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := LoadRecipe(file)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Packages, append(slices.Clone(base.Packages), "firefox-esr")) || r.Suite != "bookworm" ||
		r.Text != text {
		t.Errorf("recipe: %+v", r)
	}
	if r.key() == base.key() {
		t.Error("another recipe, the same work directory")
	}
	quiet := *base
	quiet.CommandLine, quiet.Name = []string{"quiet"}, "other"
	if quiet.key() != base.key() {
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
			"KEY-----']}]\n", "not a public key"},
		"unknown in unit": {"suite: x\nunits: {start: [a.service]}\n", `unknown key "start"`},
		"unit":            {"suite: x\nunits: {mask: ['a b']}\n", "not the name of a unit"},
		"locale":          {"suite: x\nlocale: german\n", "de_DE.UTF-8"},
		"timezone":        {"suite: x\ntimezone: ../../etc/shadow\n", "Europe/Berlin"},
		"kernel":          {"suite: x\nkernel: 'a b'\n", "not the name of a package"},
		"mirror":          {"suite: x\nmirrors: ['-o']\n", "mirrors"},
	} {
		_, err := ParseRecipe("lab.yaml", []byte(c.text))
		var re *RecipeError
		if !errors.As(err, &re) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	if _, err := LoadRecipe("debian:bookwurm"); err == nil ||
		!strings.Contains(err.Error(), "debian-desktop, debian:bookworm, debian:trixie") {
		t.Errorf("a recipe that is not there: %v", err)
	}
}

func FuzzParseRecipe(f *testing.F) {
	for _, name := range BuiltinRecipes() {
		r, err := LoadRecipe(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(r.Text))
	}
	f.Add([]byte("from: debian:bookworm\nfiles: [{path: /a/b, content: x, mode: '0600'}]\ncustomize: [true]\n"))
	f.Add([]byte("files: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRecipe("fuzz", text)
		if err != nil {
			return
		}
		b := &builder{Options: Options{Recipe: r}, work: &workDir{path: t.TempDir()}}
		args, err := b.mmdebstrapArgs(r, "")
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

// fakeInstaller puts a program called mmdebstrap in front of the real one. It counts its runs and then does
// what script says, with the target in $target.
func fakeInstaller(t *testing.T, script string) (runs func() int) {
	t.Helper()
	dir := t.TempDir()
	count := filepath.Join(dir, "runs")
	text := fmt.Sprintf(
		"#!/bin/sh -e\necho x >> %s\nfor a; do case $a in */tree.new) target=$a;; esac; done\n%s\n",
		count,
		script,
	)
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() int {
		b, _ := os.ReadFile(count)
		return len(b) / 2
	}
}

// installs makes a tree that can be built.
func installs(t *testing.T) string {
	t.Helper()
	kernel := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(kernel, fakeKernel("6.1.0-test"), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(
		`mkdir -p $target/boot $target/etc/ssh $target/usr/lib/modules/6.1.0-test/kernel $target/var/lib/apt/lists
cp %s $target/boot/vmlinuz-6.1.0-test
touch $target/usr/lib/modules/6.1.0-test/kernel/x.ko $target/etc/ssh/ssh_host_rsa_key $target/var/lib/apt/lists/x
echo 123 > $target/etc/machine-id; echo builder > $target/etc/hostname
echo "INITRD is $INITRD, TMPDIR is $TMPDIR"`,
		kernel,
	)
}

func recipeOptions(t *testing.T, data string) Options {
	t.Helper()
	opt := testOptions(t, data, "")
	var err error
	if opt.Recipe, err = LoadRecipe("debian:bookworm"); err != nil {
		t.Fatal(err)
	}
	return opt
}

func TestInstallerFails(t *testing.T) {
	needBuilder(t)
	fakeInstaller(t, "mkdir -p $target/half; echo 'E: Unable to locate package lesss' >&2; exit 25")
	opt := recipeOptions(t, t.TempDir())
	var shown []string
	opt.Progress = func(p Progress) { shown = append(shown, p.Note) }
	_, err := Image(t.Context(), opt)
	var failed *CommandError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "Unable to locate package lesss") {
		t.Errorf("error %v, want the end of the output", err)
	}
	if !slices.Contains(shown, "E: Unable to locate package lesss") {
		t.Errorf("the output was not shown: %q", shown)
	}
	if left, _ := filepath.Glob(filepath.Join(opt.Work, "*", "tree*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestInstallerIsMissing(t *testing.T) {
	needBuilder(t)
	t.Setenv("PATH", t.TempDir())
	_, err := Image(t.Context(), recipeOptions(t, t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), "install mmdebstrap") {
		t.Errorf("error %v", err)
	}
}

// What was installed is used again by the next build; an archive that cannot be asked is believed for a day.
func TestInstalledTreeIsUsedAgain(t *testing.T) {
	needBuilder(t)
	runs := fakeInstaller(t, installs(t))
	opt := recipeOptions(t, t.TempDir())
	opt.Recipe.Customize = nil
	fails := opt
	fails.drivers = func(context.Context, DriverOptions) ([]DriverCPIO, error) { return nil, errors.New("stop here") }
	if _, err := Image(t.Context(), fails); err == nil || runs() != 1 {
		t.Fatalf("error %v after %d runs", err, runs())
	}
	tree := filepath.Join(opt.Work, layerPrefix+opt.Recipe.base().key(), baseTree)
	for _, gone := range []string{"etc/ssh/ssh_host_rsa_key", "etc/hostname", "var/lib/apt/lists/x"} {
		if exists(filepath.Join(tree, gone)) {
			t.Errorf("%s is in the tree", gone)
		}
	}
	if id, err := os.ReadFile(filepath.Join(tree, "etc/machine-id")); err != nil || len(id) > 0 {
		t.Errorf("machine-id %q, %v", id, err)
	}

	old := fails
	old.Now = func() time.Time { return time.Now().Add(2 * treeMaxAge) }
	if _, err := Image(t.Context(), old); err == nil || runs() != 2 {
		t.Errorf("an old tree: error %v after %d runs, want 2", err, runs())
	}
	fresh := fails
	fresh.FreshTree = true
	if _, err := Image(t.Context(), fresh); err == nil || runs() != 3 {
		t.Errorf("a fresh tree: error %v after %d runs, want 3", err, runs())
	}
	mustBuild(t, opt)
	if runs() != 3 {
		t.Errorf("%d runs of the installer, want 3", runs())
	}
	left, err := os.ReadDir(opt.Work)
	if err != nil || len(left) != 1 || !strings.HasPrefix(left[0].Name(), layerPrefix) {
		t.Errorf("left after success: %v, %v", left, err)
	}
}

func TestInstallerIsStopped(t *testing.T) {
	needBuilder(t)
	fakeInstaller(t, "mkdir -p $target/half; echo started; sleep 1000 & wait")
	opt := recipeOptions(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	opt.Progress = func(p Progress) {
		if p.Note == "started" {
			cancel()
		}
	}
	begin := time.Now()
	if _, err := Image(ctx, opt); !errors.Is(err, context.Canceled) || time.Since(begin) > 9*time.Second {
		t.Errorf("error %v after %s", err, time.Since(begin))
	}
}
