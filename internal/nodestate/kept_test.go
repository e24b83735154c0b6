package nodestate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A single file is kept from the first boot on: what programs write, in place or by renaming, is kept with its mode,
// and the next boot has it in place of the image's file.
func TestSingleFile(t *testing.T) {
	dir := t.TempDir()
	root, base, list := filepath.Join(dir, "root"), filepath.Join(dir, "kept"), filepath.Join(dir, "list")
	path, kept := filepath.Join(root, "etc/app.conf"), filepath.Join(base, "app")
	shell := func(script string) {
		t.Helper()
		if out, err := exec.Command("sh", "-c", "base="+base+"\nlist="+list+"\nsay() { :; }\nsince() { date +%s "+
			">$base/+pando/since/$1; }\nfail() { echo \"$@\"; exit 1; }\n"+script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	want := func(path, text string, mode os.FileMode) {
		t.Helper()
		got, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(got) != text || info.Mode() != mode {
			t.Errorf("%s: %q, %v, %v; want %q with %v", path, got, info, err, text, mode)
		}
	}
	boot := func(how string) {
		t.Helper()
		_ = os.Remove(list)
		shell(stateScript[strings.Index(stateScript, "\ncopy() {"):] + "\n" + how + " " + path + " app")
		shell(keptScript)
	}
	if err := os.MkdirAll(filepath.Join(base, "+pando/since"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(base, ".new+app"), "half", 0o600) // left by a power cut
	write(path, "of the image", 0o640)
	boot("seed")
	want(kept, "of the image", 0o640)
	if _, err := os.Stat(filepath.Join(base, "+pando/since/app")); err != nil {
		t.Error(err)
	}

	write(path+".new", "of the node", 0o600)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	shell(keptScript)
	want(kept, "of the node", 0o600)
	if left, _ := filepath.Glob(base + "/.new*"); left != nil {
		t.Errorf("left: %v", left)
	}

	write(path, "of another image", 0o600)
	boot("seed")
	want(path, "of the node", 0o600)
	for _, how := range []string{"seed", "single"} { // an image without the file
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		boot(how)
		want(path, "of the node", 0o600)
	}
}
