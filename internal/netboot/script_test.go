package netboot

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (-update rewrites it):\n%s", file, got)
	}
}

func start() ScriptInput {
	return ScriptInput{
		Action:  Start,
		Base:    "http://10.0.0.1:8480",
		MAC:     fleet.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56},
		Node:    "pc001",
		Boot:    "0123456789abcdef",
		Image:   "lab:stable",
		Version: fleet.Digest("sha256:" + strings.Repeat("ab", 32)),
		Kernel: strings.Repeat(
			"cd",
			32,
		),
		Args: []string{"quiet console=ttyS0", `dyndbg="file nbd.c +p"`, "--", "single"},
	}
}

// neighbours is a start that takes K from two neighbours.
func neighbours() ScriptInput {
	in := start()
	in.Initramfs = strings.Repeat("ef", 32)
	in.Neighbours = []string{"http://10.0.0.12:8481", "http://10.0.0.13:8481"}
	return in
}

// keeps is the first boot of a storm: there is no neighbour yet.
func keeps() ScriptInput {
	in := neighbours()
	in.Neighbours, in.Keep = nil, true
	return in
}

func TestScripts(t *testing.T) {
	in := start()
	for name, in := range map[string]ScriptInput{
		"start.ipxe": in,
		"queued.ipxe": {Action: Queued, Base: in.Base, MAC: in.MAC, Node: "pc001",
			Admission: Admission{Place: 7, Expect: 19500 * time.Millisecond, Sleep: 10 * time.Second}},
		"queued-renew.ipxe": {Action: Queued, Base: in.Base, MAC: in.MAC, Node: "pc001",
			Admission: Admission{Place: 1, Sleep: time.Second}, Renew: true},
		"queued-held.ipxe": {Action: Queued, Base: in.Base, MAC: in.MAC, Node: "pc001",
			Admission: Admission{Place: 2, Expect: 300 * time.Millisecond}},
		"wait.ipxe": {Action: Wait, Base: in.Base, MAC: in.MAC, Message: "nobody has adopted " +
			"it", Hint: "pando node adopt 52:54:00:12:34:56"},
		"fail.ipxe": {Action: Fail, Base: in.Base, MAC: in.MAC, Message: "group lab has no image\n-x ${mac} || " +
			"poweroff ; \x1b[2J",
			Hint: "pando group set lab --image NAME", Retry: 1500 * time.Millisecond},
		"neighbours.ipxe": neighbours(),
		"keep.ipxe":       keeps(),
		"probe.ipxe":      {Action: Probe, Base: in.Base, MAC: in.MAC},
	} {
		got, err := Script(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden(t, name, got)
	}
	golden(t, "chain.ipxe", Chain(in.Base))
}

func TestScriptRefuses(t *testing.T) {
	tests := []struct {
		name string
		edit func(*ScriptInput)
		want string
	}{
		{"line break", func(in *ScriptInput) { in.Args = []string{"a\nchain http://evil/"} }, "printable"},
		{"expansion", func(in *ScriptInput) { in.Args = []string{"x=${net0/mac}"} }, "expand"},
		{"operator", func(in *ScriptInput) { in.Args = []string{"a || chain http://evil/"} }, "end of the command"},
		{"ours", func(in *ScriptInput) { in.Args = []string{"quiet BOOTIF=01-00-00-00-00-00-00"} }, "set by Pando"},
		{"boot id", func(in *ScriptInput) { in.Boot = "x/../../y" }, "boot id"},
		{"kernel", func(in *ScriptInput) { in.Kernel = "../etc/passwd" }, "object id"},
		{"too long", func(in *ScriptInput) { in.Args = []string{strings.Repeat("a ", 1100)} }, "2047"},
		{"base", func(in *ScriptInput) { in.Base = "http://h:1/x" }, "HOST:PORT"},
		{"base with a command", func(in *ScriptInput) { in.Base = "http://h:1 || shell" }, "HOST:PORT"},
		{"https, which iPXE of Debian 12 cannot", func(in *ScriptInput) { in.Base = "https://h:1" }, "HOST:PORT"},
		{"initramfs", func(in *ScriptInput) { in.Initramfs = "initramfs" }, "object id"},
		{"neighbour", func(in *ScriptInput) {
			*in = neighbours()
			in.Neighbours[1] = "http://10.0.0.13:8481/x || shell"
		}, "HOST:PORT"},
		{"action", func(in *ScriptInput) { in.Action = "dance" }, "unknown action"},
	}
	for _, tt := range tests {
		in := start()
		tt.edit(&in)
		if got, err := Script(in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Script = %q, %v, want an error with %q", tt.name, got, err, tt.want)
		}
	}
}

// Whatever an operator or a machine puts into a script, it has only lines that Pando means to write.
func FuzzScript(f *testing.F) {
	f.Add("quiet", "no image\nset one", "${mac} || shell", "pc001")
	f.Add("a;b", "; poweroff", "$${x}", "\x00")
	f.Fuzz(func(t *testing.T, arg, message, hint, node string) {
		for _, action := range []Action{Start, "neighbours", "keep", Queued, Wait, Fail} {
			in := start()
			switch action {
			case "neighbours":
				in, action = neighbours(), Start
			case "keep":
				in, action = keeps(), Start
			}
			in.Action, in.Args, in.Message, in.Hint, in.Node = action, []string{arg}, message, hint, node
			b, err := Script(in)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(b)) {
				checkLine(t, strings.TrimSuffix(line, "\n"))
			}
		}
	})
}

func checkLine(t *testing.T, line string) {
	t.Helper()
	if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		t.Errorf("unprintable character in %q", line)
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "echo":
		if strings.Contains(rest, "${") && !strings.Contains(rest, "address ${ip};") {
			t.Errorf("iPXE would expand something in %q", line)
		}
		for w := range strings.FieldsSeq(rest) {
			if w == "||" || w == "&&" || w == ";" {
				t.Errorf("operator in %q", line)
			}
		}
	case "kernel":
		if strings.Contains(rest, "${") || strings.Count(line, " || ") != 1 ||
			!strings.HasSuffix(line, " || goto failed") {
			t.Errorf("more than one command in %q", line)
		}
	case "imgfetch": // its arguments are the kernel's, before the commands that verify it
		fetch, _, verified := strings.Cut(rest, " && sha256sum --set sum:hexraw ")
		if verified && regexp.MustCompile(`\$\{| \|\| | && `).MatchString(fetch) {
			t.Errorf("more than one command in %q", line)
		}
		if !verified && !strings.Contains(fetch, "/sources?") {
			t.Errorf("what it fetches is not verified: %q", line)
		}
	case "#!ipxe",
		"sleep",
		"imgfree",
		"initrd",
		"boot",
		"chain",
		"goto",
		"ifconf",
		"set",
		"inc",
		"iseq",
		"isset",
		"clear",
		"imgselect",
		":kthere",
		":k0",
		":k1",
		":ithere",
		":i0",
		":i1",
		"shim",
		":ask",
		":failed":
	default:
		t.Errorf("unexpected line %q", line)
	}
}

// A script makes a machine fetch from other hosts only what the machine verifies.
func TestScriptsNameNobodyElse(t *testing.T) {
	files, err := filepath.Glob("testdata/*.ipxe")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "neighbours.ipxe" {
			continue // TestNeighbourLearnsNothing
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range regexp.MustCompile(`[a-z]+://[^/\s,]*`).FindAllString(string(b), -1) {
			if u != start().Base {
				t.Errorf("%s names %s, its server is %s", file, u, start().Base)
			}
		}
	}
}
