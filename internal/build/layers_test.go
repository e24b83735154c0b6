package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"pando/internal/build/recipe"
	"pando/internal/command"
	"pando/internal/steps"
	"pando/internal/systree"
	"pando/internal/testkit"
	"pando/internal/workdir"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// layered returns a recipe that installs a tree with a shell, and a counter of installations.
func layered(t *testing.T) (data string, runs func() int, opt func(more string) Options) {
	t.Helper()
	tree := runnableTree(t)
	runs = fakeInstaller(
		t,
		fmt.Sprintf(
			`mkdir $target; cp -a %s/. $target; ln $target/bin/touch $target/bin/other; mkdir -p $target/etc/apt/apt.conf.d
		printf '%%s' lists > $target/var/lib/apt/lists/deb.example_InRelease; printf 'root:*:1:0:99999:7:::\n' > $target/etc/shadow
		for a; do case $a in *var/lib/apt/lists*) sh -c "${a#--customize-hook=}" sh $target;; esac; done; rm -r $target/var/lib/apt/lists/*
		find $target -exec touch -h -d @1700000000 {} +; touch $target/etc/shadow`,
			tree,
		),
	)
	data = t.TempDir()
	return data, runs, func(more string) Options {
		t.Helper()
		r, err := recipe.Parse("lab.yaml", []byte("suite: bookworm\n"+more))
		if err != nil {
			t.Fatal(err)
		}
		opt := testOptions(t, data, "")
		opt.Recipe = r
		return opt
	}
}

// built builds the recipe, and returns which of its steps ran and which were reused.
func built(t *testing.T, opt Options) (r Result, ran, kept []string) {
	t.Helper()
	opt.Progress = func(p steps.Progress) {
		if name, ok := strings.CutPrefix(p.Note, "unchanged: "); ok {
			kept = append(kept, name)
		} else if strings.HasPrefix(p.Note, ": ") || p.Note == "files" {
			ran = append(ran, p.Note)
		}
	}
	return mustBuild(t, opt), ran, kept
}

const layeredRecipe = `packages: [a]
files: [{path: /etc/motd, content: "%s", mode: "0600"}]
customize:
  - ": one; test -s /var/lib/apt/lists/deb.example_InRelease; test -s /etc/apt/apt.conf.d/00pando; echo 1 > /etc/one; chmod 700 /bin/other"
  - ": two; test \"$(cat /etc/one)\" = 1; cat /etc/motd > /etc/two; rm /etc/one; mkdir /etc/dir; : > /etc/dir/x"
  - ": three; %s; test ! -e /etc/one; rm -r /etc/dir; mkdir /etc/dir; : > /etc/dir/y"
`

// TestRecipeLayers: a changed command, file or argument does not install again, and runs only the steps after it. A
// changed package installs. A build with layers gives the same version as one without.
func TestRecipeLayers(t *testing.T) {
	_, runs, options := layered(t)
	text := func(motd, three string) string { return fmt.Sprintf(layeredRecipe, motd, three) }
	first, ran, kept := built(t, options(text("hello", "true")))
	if runs() != 1 || len(ran) != 4 || len(kept) != 0 {
		t.Fatalf("%d runs of the installer; ran %q, kept %q", runs(), ran, kept)
	}
	for what, c := range map[string]struct {
		text string
		kept int
		runs int
		same bool
	}{
		"nothing changed":      {text("hello", "true"), 4, 1, true},
		"another last command": {text("hello", ": echo"), 3, 1, true},
		"an argument":          {text("hello", "true") + "command_line: [quiet]\n", 4, 1, false},
	} {
		again, _, kept := built(t, options(c.text))
		if runs() != c.runs || len(kept) != c.kept || (again.Version == first.Version) != c.same {
			t.Errorf(
				"%s: %d runs of the installer, kept %q, version %s after %s",
				what,
				runs(),
				kept,
				again.Version.Short(),
				first.Version.Short(),
			)
			opt := options("")
			testkit.CompareTrees(t, rootOf(t, opt, again.Manifest), rootOf(t, opt, first.Manifest))
		}
	}
	if other, ran, kept := built(t, options(text("bye", "true"))); runs() != 1 || len(kept) != 0 || len(ran) != 4 ||
		other.Version == first.Version {
		t.Errorf("another file: %d runs, ran %q, kept %q", runs(), ran, kept)
	}
	opt := options(text("hello", "true"))
	checkLayered(t, opt, first)

	opt.FreshTree = true
	fresh, _, kept := built(t, opt)
	if runs() != 2 || len(kept) != 0 || fresh.Version != first.Version {
		testkit.CompareTrees(t, rootOf(t, opt, fresh.Manifest), rootOf(t, opt, first.Manifest))
		t.Errorf(
			"fresh: %d runs of the installer, kept %q, version %s after %s",
			runs(),
			kept,
			fresh.Version,
			first.Version,
		)
	}
	if built(t, options(strings.Replace(text("hello", "true"), "[a]", "[a, b]", 1))); runs() != 3 {
		t.Errorf("another package: %d runs of the installer, want 3", runs())
	}
	late := options(text("hello", "true"))
	late.Now = func() time.Time { return time.Now().Add(treeMaxAge - time.Minute) }
	if _, _, kept := built(t, late); len(kept) != 4 || runs() != 3 {
		t.Errorf("a day later kept %q, %d runs", kept, runs())
	}
	left, err := workdir.List(late.Work)
	if err != nil || len(left) != 2 {
		t.Errorf("left %v, %v", left, err)
	}
	later := time.Now().Add(time.Hour)
	gone, _, err := workdir.Collect(late.Work, later, later, false)
	if err != nil || len(gone) != 2 || gone[0].Bytes < 100_000 {
		t.Errorf("collected %+v, %v", gone, err)
	}
}

// checkLayered checks the tree that the recipe made.
func checkLayered(t *testing.T, opt Options, r Result) {
	t.Helper()
	root := testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Store, r.Manifest))
	for path, want := range map[string]bool{"etc/motd": true, "etc/one": false, "etc/two": true, "etc/dir/x": false,
		"etc/dir/y": true,
		"var/lib/apt/lists/deb.example_InRelease": false, "etc/apt/apt.conf.d/00pando": false,
		"usr/sbin/policy-rc.d": false} {
		if systree.Exists(filepath.Join(root, path)) != want {
			t.Errorf("%s is there: %t, want %t", path, !want, want)
		}
	}
	out, err := exec.Command("sh", "-euc",
		`cd "$1"; test bin/touch -ef bin/other; stat -c '%a %h' bin/touch bin/other; cat etc/two`, "sh", root).
		CombinedOutput()
	if err != nil || string(out) != "700 2\n700 2\nhello" {
		t.Errorf("%v: %q", err, out)
	}
}

// TestLayerFails: a command that fails makes no version; the layers before it stay.
func TestLayerFails(t *testing.T) {
	data, runs, options := layered(t)
	opt := options("customize: [': good; echo x > /etc/x', ': bad; echo why >&2; exit 3']\n")
	_, err := Image(t.Context(), opt)
	var failed *command.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "why") {
		t.Fatalf("error %v", err)
	}
	checkStore(t, opt.Store, 0)
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), data) {
		t.Errorf("mounts are left (%v):\n%s", err, mounts)
	}
	if _, ran, kept := built(t, options("customize: [': good; echo x > /etc/x', ': better']\n")); runs() != 1 ||
		!slices.Equal(ran, []string{": better"}) ||
		len(kept) != 1 {
		t.Errorf("%d runs of the installer, ran %q, kept %q", runs(), ran, kept)
	}
}

// TestWithoutLayers: without overlays, everything is installed in one step.
func TestWithoutLayers(t *testing.T) {
	_, runs, options := layered(t)
	opt := options("packages: [a]\n")
	opt.Work = testkit.MountAt(
		t,
		"-t",
		"overlay",
		"-o",
		"lowerdir="+t.TempDir()+":"+t.TempDir(),
		"overlay",
	) // cannot be written
	if _, err := Image(t.Context(), opt); err == nil {
		t.Error("a work directory that cannot be written")
	}
	if runs() != 0 {
		t.Errorf("%d runs", runs())
	}
}

// TestRealLayers does the same with Debian's archive. A build with layers gives the same version as one installation;
// a changed command installs nothing, a changed package does.
func TestRealLayers(t *testing.T) {
	testkit.NeedBuilder(t)
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("installs Debian three times: PANDO_FULL is not set (make test-full sets it)")
	}
	data := t.TempDir()
	step := func(what, text string, atOnce bool) (r Result, installed int) {
		t.Helper()
		opt := testOptions(t, data, "")
		var err error
		if opt.Recipe, err = recipe.Parse("lab.yaml", []byte("from: debian:bookworm\n"+text)); err != nil {
			t.Fatal(err)
		}
		var kept []string
		opt.anyInit, opt.atOnce = false, atOnce
		opt.Progress = func(p steps.Progress) {
			if strings.HasPrefix(p.Note, "unchanged: ") {
				kept = append(kept, p.Note)
			} else if strings.Contains(p.Note, "installing essential packages") {
				installed++
			}
		}
		begin := time.Now()
		r = mustBuild(t, opt)
		t.Logf(
			"%s: %s, tree %s, %d installations, %q, version %s",
			what,
			time.Since(begin).Round(time.Second),
			r.Elapsed[StepTree].Round(time.Second),
			installed,
			kept,
			r.Version.Short(),
		)
		return r, installed
	}
	const text = "files: [{path: /etc/motd, content: hello}]\nusers: [{name: lab}]\nlocale: de_DE.UTF-8\nunits: " +
		"{mask: [e2scrub_all.timer]}\ncustomize: ['apt-get -y install tree', '%s']\n"
	layers, n := step("layers", fmt.Sprintf(text, "echo 1 > /etc/one"), false)
	if n != 1 {
		t.Errorf("%d installations at first", n)
	}
	if _, n := step("another command", fmt.Sprintf(text, "echo 2 > /etc/one"), false); n != 0 {
		t.Errorf("another command: %d installations", n)
	}
	if again, n := step("as before", fmt.Sprintf(text, "echo 1 > /etc/one"), false); n != 0 ||
		again.Version != layers.Version {
		t.Errorf("as before: %d installations, version %s after %s", n, again.Version.Short(), layers.Version.Short())
	}
	once, _ := step("at once", fmt.Sprintf(text, "echo 1 > /etc/one"), true)
	if once.Version != layers.Version {
		t.Errorf("layers give %s, one installation gives %s", layers.Version.Short(), once.Version.Short())
		opt := testOptions(t, data, "")
		testkit.CompareTrees(t, rootOf(t, opt, layers.Manifest), rootOf(t, opt, once.Manifest))
	}
	if _, n := step("another package", "packages: [tree]\n"+fmt.Sprintf(text, "echo 1 > /etc/one"), false); n != 1 {
		t.Errorf("another package: %d installations", n)
	}
}

// TestLayersAreBounded: only the most recently used directories of layers are kept.
func TestLayersAreBounded(t *testing.T) {
	_, _, options := layered(t)
	var work string
	for i := range recipe.MaxLayers + 2 {
		opt := options(fmt.Sprintf("packages: [p%d]\n", i))
		work = opt.Work
		mustBuild(t, opt)
	}
	if left, err := workdir.List(work); err != nil || len(left) != recipe.MaxLayers {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestNoHashInProvenance: the provenance has the recipe's text without password hashes.
func TestNoHashInProvenance(t *testing.T) {
	const hash = "$y$j9T$abcdefgh$0123456789"
	for _, text := range []string{
		"users: [{name: root, password_hash: " + hash + "}]\n",
		"users:\n- name: root\n  password_hash: '" + hash + "'\n",
		"users: [{name: root, password_hash: \"\\u0024y$j9T$abcdefgh$0123456789\"}]\n",
	} {
		r, err := recipe.Parse("lab.yaml", []byte("suite: bookworm\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.PublicText(); strings.Contains(got, "abcdefgh") ||
			!strings.Contains(got, "suite: bookworm") && !strings.Contains(got, "left out") {
			t.Errorf("provenance: %q", got)
		}
		if !strings.Contains(r.Text, "abcdefgh") {
			t.Error("the recipe itself is changed")
		}
	}
}
