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

// stateNode is the storage of several nodes' state, and the image of one of them, pc001.
type stateNode struct {
	t                 *testing.T
	place, image, run string
	persist           []string
}

func newStateNode(t *testing.T) *stateNode {
	t.Helper()
	dir := t.TempDir()
	k := &stateNode{
		t:     t,
		place: filepath.Join(dir, "state"),
		image: filepath.Join(dir, "image"),
		run:   filepath.Join(dir, "run") + "/",
	}
	for _, d := range []string{"log", "data"} {
		k.persist = append(k.persist, filepath.Join(k.image, d))
		k.write(filepath.Join(k.image, d, "a"), "image")
	}
	k.write(k.run+"none", "")
	return k
}

func (k *stateNode) write(path, text string) {
	k.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// file returns the path of a kept file of a node.
func (k *stateNode) file(node, dir, name string) string {
	return filepath.Join(k.place, node, KeptName(filepath.Join(k.image, dir)), name)
}

// has returns the content of the file a in the node's two directories.
func (k *stateNode) has(node string) string {
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

// cutter counts commands that change files, and cuts the power at a given step, with a copy that has just begun.
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
sleep() { :; }
`

// messenger replaces pando-init: the server's data is a file, which comes in two parts. The power may be cut before,
// between and after them. The file answer may have another exit status.
const messenger = `#!/bin/sh
cd %s
step() {
	echo >>steps
	[ "$(grep -c '' steps)" != "$(cat cut)" ] || kill -9 0
}
echo "$*" >>asked
answer=$(cat answer 2>/dev/null)
[ -z "$answer" ] || { echo "this is why"; exit "$answer"; }
[ "$1" = state-fetch ] || exit 0
step
tar -x -f parcel -C "$4" --wildcards '*log*'
step
tar -x -p -f parcel -C "$4"
step
[ "$(sha256sum <parcel)" = "$3  -" ] || { echo "something else came"; exit 2; }
`

// boot runs pc001's script with these orders. cut is the step at which the power is cut, 0 for none. It returns
// whether the script completed, and the node's report of its state.
func (k *stateNode) boot(cut int, orders ...fleet.StateOrder) (whole bool, output string) {
	k.t.Helper()
	files := Files(
		Input{
			Node:    "pc001",
			Keeping: fleet.Keeping{StateOn: ptr("directory " + k.place), Persist: &k.persist},
			Orders:  orders,
		},
	)
	for _, f := range files {
		if strings.HasPrefix(f.Path, ownDir) {
			k.write(k.run+strings.TrimPrefix(f.Path, ownDir), strings.ReplaceAll(string(f.Data), ownDir, k.run))
		}
	}
	steps := k.run + "steps"
	_ = os.Remove(steps)
	k.write(k.run+"cut", fmt.Sprint(cut))
	k.write(k.run+"pando-init", fmt.Sprintf(messenger, k.run))
	if err := os.Chmod(k.run+"pando-init", 0o700); err != nil {
		k.t.Fatal(err)
	}
	c := exec.Command("sh", "-c", fmt.Sprintf("steps=%s cut=%d\n%s\n. %sstate.sh", steps, cut, cutter, k.run))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.CombinedOutput()
	if cut == 0 && err != nil {
		k.t.Fatalf("boot: %v\n%s", err, out)
	}
	b, _ := os.ReadFile(k.run + "state-report")
	return err == nil, string(b)
}

// Wherever the power is cut, no boot finds an incomplete state: the state is the old or the ordered one, and no order
// runs twice. That also holds if the order is withdrawn after the cut.
func TestOrdersSurvivePowerCuts(t *testing.T) {
	log := func(k *stateNode) []string { return k.persist[:1] }
	for name, c := range map[string]struct {
		order func(*stateNode) fleet.StateOrder
		want  string
	}{
		"reset": {func(*stateNode) fleet.StateOrder { return fleet.StateOrder{ID: "A1", Kind: fleet.ResetState} },
			"image image"},
		"reset path": {func(k *stateNode) fleet.StateOrder {
			return fleet.StateOrder{ID: "A1", Kind: fleet.ResetState, Paths: log(k)}
		}, "image mine"},
		"copy": {func(*stateNode) fleet.StateOrder {
			return fleet.StateOrder{ID: "A1", Kind: fleet.CopyState, FromDir: "pc002"}
		}, "its its"},
		"copy through the server": {func(k *stateNode) fleet.StateOrder {
			return fleet.StateOrder{ID: "A1", Kind: fleet.CopyState, Through: true, From: "pc002",
				Digest: k.parcel("pc002")}
		}, "its its"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cuts := 0
			for whole := false; !whole; {
				cuts++
				for _, again := range []bool{true, false} {
					k := newStateNode(t)
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

// check boots a node after a power cut, with the order or without it.
func (k *stateNode) check(o fleet.StateOrder, again bool, want string, cut int) {
	k.t.Helper()
	if !again {
		_, output := k.boot(0)
		if got := k.has("pc001"); got != want && got != "mine mine" || strings.Contains(output, "done") {
			k.t.Errorf("cut %d, taken back: the node has %q, and says\n%s", cut, got, output)
		}
		return
	}
	_, output := k.boot(0, o)
	if got := k.has("pc001"); got != want || !strings.Contains(output, "done\tA1\n") {
		k.t.Errorf("cut %d: the node has %q, want %q, and says\n%s", cut, got, want, output)
	}
	k.write(k.file("pc001", "log", "a"), "later")
	if _, output = k.boot(0, o); !strings.HasPrefix(k.has("pc001"), "later ") ||
		!strings.Contains(output, "done\tA1\n") {
		k.t.Errorf("cut %d: it was done twice, or not said again: %q\n%s", cut, k.has("pc001"), output)
	}
	if left, _ := filepath.Glob(filepath.Join(k.place, "pc001", "+pando", "*")); !slices.Equal(
		left,
		[]string{k.own("done"), k.own("since")},
	) {
		k.t.Errorf("cut %d: left beside the state: %v", cut, left)
	}
	if got := k.has("pc002"); got != "its its" {
		k.t.Errorf("cut %d: the other node has %q", cut, got)
	}
}

func (k *stateNode) own(name string) string { return filepath.Join(k.place, "pc001", "+pando", name) }

// A copy of a state that does not exist changes nothing, and is reported.
func TestCopyOfNothing(t *testing.T) {
	k := newStateNode(t)
	k.boot(0)
	k.write(k.file("pc001", "log", "a"), "mine")
	_, output := k.boot(0, fleet.StateOrder{ID: "A1", Kind: fleet.CopyState, FromDir: "pc003"})
	if got := k.has("pc001"); got != "mine image" || !strings.Contains(output, "failed\tA1\tthere is no pc003") {
		t.Errorf("the node has %q, and says\n%s", got, output)
	}
}

// A node reports what it keeps, and since when. After the boot it also reports the sizes, and that it removed a
// deleted node's state.
func TestReport(t *testing.T) {
	k := newStateNode(t)
	k.write(k.file("pc009", "log", "a"), "left")
	k.write(
		filepath.Join(k.place, "pc001", "srv+old", "a"),
		strings.Repeat("x", 100_000),
	) // of an earlier release; no longer declared
	remove := fleet.StateOrder{ID: "B1", Kind: fleet.RemoveState, FromDir: "pc009"}
	_, output := k.boot(0, remove)
	place := "on\tdirectory " + k.place + "\tdirectory " + k.place + "\n"
	if !strings.HasPrefix(output, place+"kept\t/srv/old\t-\t-\nkept\t") ||
		strings.Count(output, "kept\t"+k.image) != 2 {
		t.Errorf("at once:\n%s", output)
	}
	if out, err := exec.Command("sh", k.run+"state-report.sh", "sizes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, _ := os.ReadFile(k.run + "state-report")
	if output = string(b); !strings.HasPrefix(output, place+"kept\t/srv/old\t-\t1") ||
		!strings.HasSuffix(output, "\ndone\tB1\n") ||
		strings.Contains(strings.ReplaceAll(output, "/srv/old\t-", ""), "\t-") {
		t.Errorf("later:\n%s", output)
	}
	if left, _ := filepath.Glob(k.place + "/*"); !slices.Equal(left, []string{filepath.Join(k.place, "pc001")}) {
		t.Errorf("left: %v", left)
	}
}

// parcel copies a node's state to the server's file, and returns its digest.
func (k *stateNode) parcel(node string) string {
	k.t.Helper()
	out, err := exec.Command("sh", "-c", `tar -c -f "$2" -C "$1" . && sha256sum <"$2"`, "sh",
		filepath.Join(k.place, node), k.run+"parcel").
		CombinedOutput()
	if err != nil {
		k.t.Fatalf("%v\n%s", err, out)
	}
	return strings.Fields(string(out))[0]
}

// A failed fetch changes nothing. A refusal and wrong data are reported; other failures are left to the next boot.
func TestFetchFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer, digest string // exit status of the courier; digest of the data, if it is not the right one
		want           string // expected report
		tries          int
	}{
		"refused":         {answer: "2", want: "failed\tA1\tthis is why\n", tries: 1},
		"another content": {digest: "00", want: "failed\tA1\tsomething else came\n", tries: 1},
		"server away":     {answer: "1", tries: 40},
		"no server":       {answer: "3", tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newStateNode(t)
			for _, d := range []string{"log", "data"} {
				k.write(k.file("pc001", d, "a"), "mine")
				k.write(k.file("pc002", d, "a"), "its")
			}
			o := fleet.StateOrder{
				ID:      "A1",
				Kind:    fleet.CopyState,
				Through: true,
				From:    "pc002",
				Digest:  k.parcel("pc002"),
			}
			o.Digest = o.Digest[:max(0, len(o.Digest)-len(c.digest))] + c.digest
			k.write(k.run+"answer", c.answer)
			_, output := k.boot(0, o)
			if got := k.has("pc001"); got != "mine mine" || strings.Contains(output, "A1") != (c.want != "") ||
				!strings.Contains(output, c.want) {
				t.Errorf("the node has %q, and says\n%s", got, output)
			}
			if left, _ := filepath.Glob(k.own("A1*")); left != nil {
				t.Errorf("left: %v", left)
			}
			if asked, _ := os.ReadFile(k.run + "asked"); strings.Count(string(asked), "\n") != c.tries {
				t.Errorf("tried otherwise than %d times:\n%s", c.tries, asked)
			}
			k.write(k.run+"answer", "")
			o.Digest = k.parcel("pc002")
			if _, output = k.boot(0, o); k.has("pc001") != "its its" || !strings.Contains(output, "done\tA1\n") {
				t.Errorf("later the node has %q, and says\n%s", k.has("pc001"), output)
			}
		})
	}
}

// A node sends its state before any program may write to it. Only a final refusal is reported, because the server knows
// what it has.
func TestSend(t *testing.T) {
	k := newStateNode(t)
	o := fleet.StateOrder{ID: "A1", Kind: fleet.SendState}
	if _, output := k.boot(0, o); strings.Contains(output, "A1") {
		t.Errorf("sent, it says\n%s", output)
	}
	k.write(k.run+"answer", "2")
	if _, output := k.boot(0, o); !strings.Contains(output, "failed\tA1\tthis is why\n") {
		t.Errorf("refused, it says\n%s", output)
	}
	asked, _ := os.ReadFile(k.run + "asked")
	if want := strings.Repeat("state-send A1 "+filepath.Join(k.place, "pc001")+"\n", 2); string(asked) != want {
		t.Errorf("it asked\n%swant\n%s", asked, want)
	}
}
