package nodestate

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/fleet"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

// TestFiles compares a node's files with those in testdata, one for each way to keep state.
func TestFiles(t *testing.T) {
	persist := &[]string{"/var/log", "/srv/my-data"}
	for name, k := range map[string]fleet.Keeping{
		"network": {StateOn: ptr("nfs 10.0.0.1:/srv/state nconnect=2"), Persist: persist},
		"disk":    {StateOn: ptr("disk xfs"), Persist: &[]string{"/var/log", "file:/etc/app.conf", "/srv/my-data"}},
		"volume":  {StateOn: ptr("volume 20GB"), Persist: persist},
		"directory": {StateOn: ptr("directory /mnt/site/state"), Persist: persist,
			Mounts: &[]string{"10.0.0.1:/site /mnt/site nfs"}},
		"mounts": {Mounts: &[]string{"10.0.0.1:/home /home nfs", "fs:/share /srv/share nfs " +
			"vers=3,soft,ro", "//fs/pool /srv/pool cifs credentials=/etc/pool,nofail",
			"/dev/disk/by-label/scratch /scratch ext4 nofail", "10.0.0.1:/now /now nfs4 auto",
			`//fs/Our\040Files$ /mnt/Our\040Files cifs password=a%b 0 0`, "UUID=0aa-1 /data/ ext4 noauto 0 2",
			`LABEL="my\040disk" /d ext4 x-systemd.automount`}},
		"users": {Users: &[]string{"group team gid=3000", "alice uid=2000 groups=team,video", "bob uid=2001 " +
			"home=/srv/bob shell=/bin/sh"},
			UserKeys: &[]string{"alice ssh-ed25519 AAAA a", "alice ssh-ed25519 BBBB b"}, Swap: ptr("zram"),
			Mounts: &[]string{"10.0.0.1:/srv /srv nfs"},
			Sysctl: &[]string{"vm.swappiness=100"}},
		"swap":    {Swap: ptr("volume 4GB")},
		"nothing": {Swap: ptr("disk"), StateOn: ptr("disk"), Persist: &[]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, f := range Files(Input{Node: "pc001", Keeping: k}) {
				text := string(f.Data)
				if f.Path == ownDir+"kept.sh" {
					checkScript(t, text)
					text = text[:strings.Index(text, "\n#")] + "(the script)\n"
				}
				if f.Path == ownDir+"swap.sh" {
					checkScript(t, text)
				}
				if f.Path == ownDir+"state.sh" {
					checkScript(t, text)
					settings, calls := strings.TrimSuffix(
						text[:strings.Index(text, "\n#")],
						"\n",
					), text[strings.LastIndex(text, "\n}\n")+3:]
					text = settings + "\n(the script)" + calls
				}
				fmt.Fprintf(&b, "--- %s %o %s\n%s", f.Path, f.Mode, f.Target, text)
			}
			golden(t, name+".golden", b.String())
		})
	}
}

// checkScript lets a shell parse a script.
func checkScript(t *testing.T, text string) {
	t.Helper()
	c := exec.Command("sh", "-n")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("the script: %v\n%s", err, out)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (%v); got:\n%s", path, err, got)
	}
}

// Seeding copies the image's files once, with their modes. An interrupted copy starts again.
func TestSeed(t *testing.T) {
	dir := t.TempDir()
	image, base := filepath.Join(dir, "image"), filepath.Join(dir, "kept")
	for _, d := range []string{image, filepath.Join(base, ".new+var+log")} { // left by a power cut
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(image, "a"), "of the image")
	write(filepath.Join(base, ".new+var+log", "half"), "")
	run := func() {
		t.Helper()
		seed := stateScript[strings.Index(stateScript, "\ncopy() {"):]
		c := exec.Command(
			"sh",
			"-c",
			"base="+base+"\nsay() { :; }\nsince() { :; }\nfail() { exit 1; }\n"+seed+"\nseed "+image+" var+log; "+
				"seed "+dir+"/none none",
		)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run()
	write(filepath.Join(base, "var+log", "a"), "of the node")
	run()
	got, err := os.ReadFile(filepath.Join(base, "var+log", "a"))
	info, _ := os.Stat(filepath.Join(base, "var+log", "a"))
	if err != nil || string(got) != "of the node" || info.Mode() != 0o640 {
		t.Errorf("%q, mode %v, %v", got, info.Mode(), err)
	}
	if left, _ := filepath.Glob(base + "/*/half"); left != nil {
		t.Errorf("half a copy was taken for a whole one: %v", left)
	}
	if _, err := os.Stat(filepath.Join(base, "none")); err != nil {
		t.Error(err)
	}
}

// The names are those of systemd.
func TestUnitName(t *testing.T) {
	for path, want := range map[string]string{"/var/log": "var-log", "/srv/my-data": `srv-my\x2ddata`,
		"/.a/.b": `\x2ea-.b`, "/a@b:c": `a\x40b:c`} {
		if got := unitName(path, ""); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// While the state's storage is not available, the agent's file has the reason, and later it is removed. The same
// holds if the state cannot be put in place.
func TestWhyStateWaits(t *testing.T) {
	dir := t.TempDir()
	helpers := stateScript[strings.Index(stateScript, "\nsay() {"):strings.Index(stateScript, "\nmounted() {")]
	run := func(steps string) string {
		c := exec.Command("sh", "-c", "waits="+dir+"/waits what=nas:/export\n"+helpers+"\n"+steps)
		c.Dir = dir
		out, _ := c.CombinedOutput() // fail ends the script
		return string(out)
	}
	out := run(`sleep() { cp waits seen; }
try() { [ -e seen ] || { cp waits begun; echo "mount: timed out"; return 1; }; }
again try`)
	for name, want := range map[string]string{
		"begun": "node state waits for nas:/export\n",
		"seen":  "node state waits for nas:/export: mount: timed out\n",
		"waits": "",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q\n%s", name, got, err, want, out)
		}
	}
	run(`fail "cannot be made"`)
	if got, _ := os.ReadFile(filepath.Join(dir, "waits")); string(got) != "node state: cannot be made\n" {
		t.Errorf("%q", got)
	}
}
