package build

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/build/extension"
	"pando/internal/mount"
	"pando/internal/systree"
	"pando/internal/testkit"
)

// extendOptions returns options that make an extension of a version by a script.
func extendOptions(t *testing.T, data string, of Result, script string) ExtendOptions {
	t.Helper()
	build := testOptions(t, data, "")
	build.anyInit = false
	return ExtendOptions{
		Name:    "tools",
		Base:    of.Version,
		Build:   build,
		Command: mount.Command{Args: []string{"sh", "-euc", script}, Env: []string{"PATH=/bin"}},
	}
}

func extensionBase(t *testing.T) (data string, first Result) {
	tree := runnableTree(t)
	for _, d := range []string{"usr/lib/systemd/system", "usr/share/old", "etc/systemd/system", "etc/alternatives"} {
		if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"etc/os-release": "NAME=x\nID=debian\nVERSION_ID=\"12\"\n",
		"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "usr/share/old/file": "old"} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data = t.TempDir()
	return data, mustBuild(t, testOptions(t, data, tree))
}

// TestExtend: an extension has everything that the command added to /usr and /opt, and nothing else. Programs and
// services can be found by their names. Other changes are reported.
func TestExtend(t *testing.T) {
	data, first := extensionBase(t)
	opt := extendOptions(t, data, first, `
		mkdir -p /usr/bin /opt/new /usr/lib/systemd/system /etc/systemd/system/multi-user.target.wants /var/lib/tool /var/cache/tool
		echo tool > /usr/bin/tool.real; chmod 755 /usr/bin/tool.real; echo data > /opt/new/data; chmod 777 /usr/share
		ln -s /usr/bin/tool.real /etc/alternatives/tool; ln -s /etc/alternatives/tool /usr/bin/tool
		echo '[Service]' > /usr/lib/systemd/system/tool.service
		ln -s /lib/systemd/system/tool.service /etc/systemd/system/multi-user.target.wants/tool.service
		echo conf > /etc/tool.conf; rm /usr/share/old/file; echo c > /var/cache/tool/c`)
	r, err := Extend(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	checkStore(t, opt.Build.Store, 2)
	m := r.Manifest
	if m.Extends == nil || m.Extends.Name != "tools" || m.Extends.Base != first.Version || m.Kernel.Release != "" ||
		m.Architecture != first.Manifest.Architecture {
		t.Errorf("manifest %+v", m)
	}
	if err := m.Fits(first.Version); err != nil {
		t.Error(err)
	}
	root := testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Build.Store, m))
	var files []string
	_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(p, root+"/"))
		}
		return err
	})
	want := []string{
		"opt/new/data",
		"usr/bin/tool",
		"usr/bin/tool.real",
		"usr/lib/extension-release.d/extension-release.tools",
		"usr/lib/systemd/system/multi-user.target.wants/tool.service",
		"usr/lib/systemd/system/tool.service",
	}
	if !slices.Equal(files, want) {
		t.Errorf("it has %q, want %q", files, want)
	}
	if to, _ := os.Readlink(root + "/usr/bin/tool"); to != "/usr/bin/tool.real" {
		t.Errorf("tool leads to %q", to)
	}
	if text, _ := os.ReadFile(root + "/" + want[3]); string(text) != "ID=debian\nVERSION_ID=\"12\"\n" {
		t.Errorf("extension-release %q", text)
	}
	if info, err := os.Stat(root + "/usr/share"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("/usr/share of all nodes would become %v, %v", info.Mode(), err)
	}
	if w := strings.Join(r.Provenance.Warnings, "\n"); !strings.Contains(w, "/etc/tool.conf") ||
		!strings.Contains(w, "/var/lib/tool") ||
		!strings.Contains(w, "/usr/share/old/file") ||
		strings.Count(w, "\n") != 2 {
		t.Errorf("what is left is told as %q", w)
	}
	again, err := Extend(t.Context(), opt)
	if err != nil || again.Version != r.Version {
		t.Errorf("the same again is %s, %v, before %s", again.Version, err, r.Version)
	}
}

// TestExtendEssential: a change that needs an account makes no extension, unless Force is set.
func TestExtendEssential(t *testing.T) {
	data, first := extensionBase(t)
	opt := extendOptions(t, data, first, "echo x > /usr/x; echo daemon:x:200:200::/:/bin/false >> /etc/passwd")
	_, err := Extend(t.Context(), opt)
	var essential *extension.EssentialError
	if !errors.As(err, &essential) || !strings.Contains(err.Error(), "/etc/passwd: new: daemon") {
		t.Errorf("%v", err)
	}
	opt.Force = true
	if _, err := Extend(t.Context(), opt); err != nil {
		t.Error(err)
	}
}

// TestExtendByTree: only usr and opt of a directory are copied, and it must have one of them.
func TestExtendByTree(t *testing.T) {
	data, first := extensionBase(t)
	opt := extendOptions(t, data, first, "")
	opt.Command, opt.Tree = mount.Command{}, t.TempDir()
	if _, err := Extend(t.Context(), opt); err == nil || !strings.Contains(err.Error(), "neither usr nor opt") {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.MkdirAll(opt.Tree+"/usr/bin", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(opt.Tree+"/usr/bin/mine", []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := Extend(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	root := testkit.MountAt(t, "-t", "erofs", "-o", "loop,ro", rawOf(t, opt.Build.Store, r.Manifest))
	if !systree.Exists(root + "/usr/bin/mine") {
		t.Error("what the directory has is not there")
	}
	opt.Base = r.Version
	if _, err := Extend(t.Context(), opt); err == nil {
		t.Error("an extension was extended")
	}
}
