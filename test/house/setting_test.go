package house

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

// A made-up setting: one field, and one entry of the table.
const (
	settingsFile = "internal/fleet/settings.go"
	madeUpField  = "\tMadeUp *string `json:\"made_up,omitempty\"`\n"
	madeUpLine   = `	{
		Key: "made_up", Flag: "made-up", Kind: KindText, Default: "plain",
		Usage: "what nobody needs",
		slot:  func(s *Settings) slot { return textSlot(&s.MadeUp) },
	},
`
)

// TestSettingIsOneLine: a setting that is added only to the table works from the flag through API and registry to the
// fleet file, and appears in diffs and displays. The test builds the program with one more entry.
func TestSettingIsOneLine(t *testing.T) {
	p := &madeUp{t: t, data: filepath.Join(t.TempDir(), "d"), program: buildWithSetting(t)}
	p.serve()
	p.says("group create lab --made-up one", "group lab created")
	p.says("group show lab", `made up: +one\n`)
	p.says("group show default", `made up: +plain\n`)
	p.says("group show lab --json", `"made_up": "one"`)
	p.says("group set lab --made-up two --dry-run", `made up: one -> two\n`)
	p.says("node create pc001 --mac 52:54:00:00:00:01 --group lab --made-up three", "created in group lab")
	p.says("node show pc001", `own settings: +made up\n`)
	p.says("node show pc001", `made up +three +node +one of group lab`)
	file := p.says("export", `(?s)made_up: one\n.*made_up: three\n`)
	changed := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(changed, []byte(strings.ReplaceAll(file, "made_up: one", "made_up: "+
		"four")), 0o600); err != nil {
		t.Fatal(err)
	}
	p.says("apply --yes -f "+changed, `made up: one -> four\n`)
	p.stop()
	p.serve()
	p.says("group show lab", `made up: +four\n`)
	p.says("node set pc001 --inherit made-up", `made up: three -> the group's\n`)
	p.says("node show pc001", `made up +four +group lab`)
}

// buildWithSetting builds the program with the made-up setting, without changing the source.
func buildWithSetting(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	for after, add := range map[string]string{
		"type Settings struct {\n":        madeUpField,
		"var settingTable = []Setting{\n": madeUpLine,
	} {
		if bytes.Count(text, []byte(after)) != 1 {
			t.Fatalf("%s has not one line %q", settingsFile, after)
		}
		text = bytes.Replace(text, []byte(after), []byte(after+add), 1)
	}
	source, err := filepath.Abs(filepath.Join(root, settingsFile))
	if err != nil {
		t.Fatal(err)
	}
	with := filepath.Join(dir, "settings.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: with}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{with: text, filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "pando")
	goCommand(
		t,
		"build",
		"-trimpath",
		"-ldflags=-s -w",
		"-overlay",
		filepath.Join(dir, "overlay.json"),
		"-o",
		program,
		"./cmd/pando",
	)
	return program
}

// madeUp is a server with a made-up setting, and commands for it.
type madeUp struct {
	t             *testing.T
	data, program string
	server        *exec.Cmd
}

func (p *madeUp) serve() {
	p.t.Helper()
	agent := filepath.Join(p.t.TempDir(), "agent")
	if err := os.WriteFile(agent, []byte("\x7fELF not really a program"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	c := exec.Command(p.program, "serve", "--data", p.data, "--dhcp", "off", "--http", "127.0.0.1:0",
		"--control", "127.0.0.1:0", "--tftp", "off", "--agent", agent)
	log := new(bytes.Buffer)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.server = c
	p.t.Cleanup(func() { _ = c.Process.Kill() }) // it has ended already if the test passed
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := p.run("group list"); err == nil {
			return
		}
		if time.Now().After(end) {
			_ = c.Process.Kill()
			_ = c.Wait()
			p.t.Fatalf("the server does not answer:\n%s", log)
		}
	}
}

func (p *madeUp) stop() {
	p.t.Helper()
	if err := p.server.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
	_ = p.server.Wait() // the status is that of an interrupted program
}

func (p *madeUp) run(command string) (string, error) {
	out, err := exec.Command(p.program, append([]string{"--data", p.data}, strings.Fields(command)...)...).
		CombinedOutput()
	if err != nil {
		err = fmt.Errorf("pando %s: %w\n%s", command, err, out)
	}
	return string(out), err
}

// says runs a command that must succeed, and whose output must match a pattern.
func (p *madeUp) says(command, pattern string) string {
	p.t.Helper()
	out, err := p.run(command)
	if err != nil {
		p.t.Fatal(err)
	}
	if !regexp.MustCompile(pattern).MatchString(out) {
		p.t.Errorf("pando %s: want %q in\n%s", command, pattern, out)
	}
	return out
}

// tableUsers are the packages that pass settings on: flags, API, registry and fleet file.
var tableUsers = []string{"internal/registry/", "internal/fleetfile/", "internal/api/", "cmd/pando/", "internal/cli/"}

// otherWords are names of settings that also name other things: sections of a fleet file, and parts of a node's report.
var otherWords = []string{"Secrets", `"secrets"`, "Extensions", `"extensions"`}

// TestSettingsAreInTheTable: a file that passes settings on does not name any.
func TestSettingsAreInTheTable(t *testing.T) {
	names := settingNames()
	files := 0
	for _, s := range program(sources(t)) {
		if !slices.ContainsFunc(tableUsers, func(p string) bool { return strings.HasPrefix(s.path, p) }) {
			continue
		}
		words := wordsOf(s)
		if words["Settings"] == 0 && words["SettingTable"] == 0 {
			continue
		}
		files++
		for word, line := range words {
			if names[word] && !slices.Contains(otherWords, word) {
				t.Errorf("%s:%d names the setting %s: take it from the table", s.path, line, word)
			}
		}
	}
	if files < 6 {
		t.Errorf("settings are passed on in %d files: this test looks in the wrong places", files)
	}
}

// settingNames returns the names of all settings as they appear in source: fields, and quoted keys and flags.
func settingNames() map[string]bool {
	names := map[string]bool{}
	for _, x := range fleet.SettingTable() {
		names[strconv.Quote(x.Key)], names[strconv.Quote(x.Flag)] = true, true
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[fleet.Settings](), reflect.TypeFor[fleet.Keeping]()} {
		for i := range typ.NumField() {
			names[typ.Field(i).Name] = !typ.Field(i).Anonymous
		}
	}
	return names
}

// wordsOf returns the identifiers and literals of a file, each with a line where it occurs.
func wordsOf(s source) map[string]int {
	words := map[string]int{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			words[n.Name] = s.line(n.Pos())
		case *ast.BasicLit:
			words[n.Value] = s.line(n.Pos())
		}
		return true
	})
	return words
}
