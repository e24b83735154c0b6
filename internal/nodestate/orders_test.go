package nodestate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pando/internal/fleet"
)

// keeper is a place where nodes keep their state, and the image of one of them, pc001.
type keeper struct {
	t                 *testing.T
	place, image, run string
	persist           []string
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	dir := t.TempDir()
	k := &keeper{t: t, place: filepath.Join(dir, "state"), image: filepath.Join(dir, "image"), run: filepath.Join(dir, "run") + "/"}
	for _, d := range []string{"log", "data"} {
		k.persist = append(k.persist, filepath.Join(k.image, d))
		k.write(filepath.Join(k.image, d, "a"), "image")
	}
	k.write(k.run+"none", "")
	return k
}

func (k *keeper) write(path, text string) {
	k.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// file is a file that a node keeps.
func (k *keeper) file(node, dir, name string) string {
	return filepath.Join(k.place, node, KeptName(filepath.Join(k.image, dir)), name)
}

// has is what is in the file a of the node's two directories.
func (k *keeper) has(node string) string {
	var out []string
	for _, d := range []string{"log", "data"} {
		b, err := os.ReadFile(k.file(node, d, "a"))
		if err != nil {
			b = []byte("-")
		}
		out = append(out, string(b))
	}
	return strings.Join(out, " ")
}

// cutter counts what changes files, and takes the power away at the step that is named, with a copy that has only begun.
const cutter = `
step() {
	echo >>"$steps"
	[ "$(command grep -c '' "$steps")" != "$cut" ] || { [ $# = 0 ] || command mkdir -p "$1"; kill -9 0; }
}
for c in mv rm mkdir sync cat; do
	eval "$c() { step; command $c \"\$@\"; }"
done
cp() {
	for to; do :; done
	step "$to"
	command cp "$@"
	step
}
systemctl() { :; }
`

// boot does what pc001 does before anything starts, with the files that it is given. cut is the step at which the power is cut, 0 for none. It tells whether it was,
// and what the node says of its state.
func (k *keeper) boot(cut int, orders ...fleet.StateOrder) (whole bool, said string) {
	k.t.Helper()
	files := Files(Input{Node: "pc001", Keeping: fleet.Keeping{StateOn: ptr("directory " + k.place), Persist: &k.persist}, Orders: orders})
	for _, f := range files {
		if strings.HasPrefix(f.Path, ownDir) {
			k.write(k.run+strings.TrimPrefix(f.Path, ownDir), strings.ReplaceAll(string(f.Data), ownDir, k.run))
		}
	}
	steps := k.run + "steps"
	_ = os.Remove(steps)
	c := exec.Command("sh", "-c", fmt.Sprintf("steps=%s cut=%d\n%s\n. %sstate.sh", steps, cut, cutter, k.run))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.CombinedOutput()
	if cut == 0 && err != nil {
		k.t.Fatalf("boot: %v\n%s", err, out)
	}
	b, _ := os.ReadFile(k.run + "state-report")
	return err == nil, string(b)
}

// Whatever is asked for, and wherever the power is cut, no boot finds half of a state: it is as it was, or as it was asked for, and nothing is done twice. That is so
// too when what was asked for is taken back after the cut.
func TestOrdersSurvivePowerCuts(t *testing.T) {
	log := func(k *keeper) []string { return k.persist[:1] }
	for name, c := range map[string]struct {
		order func(*keeper) fleet.StateOrder
		want  string
	}{
		"reset": {func(*keeper) fleet.StateOrder { return fleet.StateOrder{ID: "A1", Kind: fleet.ResetState} }, "image image"},
		"reset path": {func(k *keeper) fleet.StateOrder {
			return fleet.StateOrder{ID: "A1", Kind: fleet.ResetState, Paths: log(k)}
		}, "image mine"},
		"copy": {func(*keeper) fleet.StateOrder {
			return fleet.StateOrder{ID: "A1", Kind: fleet.CopyState, FromDir: "pc002"}
		}, "its its"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cuts := 0
			for whole := false; !whole; {
				cuts++
				for _, again := range []bool{true, false} {
					k := newKeeper(t)
					for _, d := range []string{"log", "data"} {
						k.write(k.file("pc001", d, "a"), "mine")
						k.write(k.file("pc002", d, "a"), "its")
					}
					o := c.order(k)
					whole, _ = k.boot(cuts, o)
					k.check(o, again, c.want, cuts)
				}
			}
			if cuts < 10 {
				t.Errorf("the power was cut at %d places only", cuts)
			}
		})
	}
}

// check boots a node after its power was cut, with what was asked for or without.
func (k *keeper) check(o fleet.StateOrder, again bool, want string, cut int) {
	k.t.Helper()
	if !again {
		_, said := k.boot(0)
		if got := k.has("pc001"); got != want && got != "mine mine" || strings.Contains(said, "done") {
			k.t.Errorf("cut %d, taken back: the node has %q, and says\n%s", cut, got, said)
		}
		return
	}
	_, said := k.boot(0, o)
	if got := k.has("pc001"); got != want || !strings.Contains(said, "done\tA1\n") {
		k.t.Errorf("cut %d: the node has %q, want %q, and says\n%s", cut, got, want, said)
	}
	k.write(k.file("pc001", "log", "a"), "later")
	if _, said = k.boot(0, o); !strings.HasPrefix(k.has("pc001"), "later ") || !strings.Contains(said, "done\tA1\n") {
		k.t.Errorf("cut %d: it was done twice, or not said again: %q\n%s", cut, k.has("pc001"), said)
	}
	if left, _ := filepath.Glob(filepath.Join(k.place, "pc001", "+pando", "*")); !slices.Equal(left, []string{k.own("done"), k.own("since")}) {
		k.t.Errorf("cut %d: left beside the state: %v", cut, left)
	}
	if got := k.has("pc002"); got != "its its" {
		k.t.Errorf("cut %d: the other node has %q", cut, got)
	}
}

func (k *keeper) own(name string) string { return filepath.Join(k.place, "pc001", "+pando", name) }

// A copy of what is not there changes nothing, and says why.
func TestCopyOfNothing(t *testing.T) {
	k := newKeeper(t)
	k.boot(0)
	k.write(k.file("pc001", "log", "a"), "mine")
	_, said := k.boot(0, fleet.StateOrder{ID: "A1", Kind: fleet.CopyState, FromDir: "pc003"})
	if got := k.has("pc001"); got != "mine image" || !strings.Contains(said, "failed\tA1\tthere is no pc003") {
		t.Errorf("the node has %q, and says\n%s", got, said)
	}
}

// A node says what it keeps, and since when; once the boot is over how much it is, and it has removed what a deleted node left.
func TestReport(t *testing.T) {
	k := newKeeper(t)
	k.write(k.file("pc009", "log", "a"), "left")
	k.write(filepath.Join(k.place, "pc001", "srv+old", "a"), strings.Repeat("x", 100_000)) // of an earlier release, and not declared any more
	remove := fleet.StateOrder{ID: "B1", Kind: fleet.RemoveState, FromDir: "pc009"}
	_, said := k.boot(0, remove)
	place := "on\tdirectory " + k.place + "\tdirectory " + k.place + "\n"
	if !strings.HasPrefix(said, place+"kept\t/srv/old\t-\t-\nkept\t") || strings.Count(said, "kept\t"+k.image) != 2 {
		t.Errorf("at once:\n%s", said)
	}
	if out, err := exec.Command("sh", k.run+"state-report.sh", "sizes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, _ := os.ReadFile(k.run + "state-report")
	if said = string(b); !strings.HasPrefix(said, place+"kept\t/srv/old\t-\t1") || !strings.HasSuffix(said, "\ndone\tB1\n") || strings.Contains(strings.ReplaceAll(said, "/srv/old\t-", ""), "\t-") {
		t.Errorf("later:\n%s", said)
	}
	if left, _ := filepath.Glob(k.place + "/*"); !slices.Equal(left, []string{filepath.Join(k.place, "pc001")}) {
		t.Errorf("left: %v", left)
	}
}
