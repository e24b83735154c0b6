package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"pando/internal/cmdenv"
)

// The reference and the man pages are generated from the commands.
const (
	cliDoc = "../../docs/cli.md"
	manDir = "../../docs/man"
)

// TestCLIDoc: docs/cli.md describes every present command, flag and topic.
func TestCLIDoc(t *testing.T) {
	t.Setenv("PANDO_SERVER", "")
	root := newRoot(&cmdenv.Env{})
	var b strings.Builder
	b.WriteString("<!-- made by `go test ./internal/cli -update` from the commands; edit their help -->\n# The " +
		"command line\n")
	fmt.Fprintf(&b, "\n%s\n", markdown(root.Long))
	describe(&b, root)
	if *update {
		if err := os.WriteFile(cliDoc, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the commands say; run go test ./internal/cli -update", cliDoc)
	}
	for i, line := range strings.Split(b.String(), "\n") {
		bars := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if strings.HasPrefix(line, "| ") && bars != 3 {
			t.Errorf("%s:%d: a row of a table has %d bars: %s", cliDoc, i+1, bars, line)
		}
	}
}

// TestManPages: docs/man has a page for each command, as cobra generates it.
func TestManPages(t *testing.T) {
	t.Setenv("PANDO_SERVER", "")
	dir := t.TempDir()
	root := newRoot(&cmdenv.Env{})
	root.DisableAutoGenTag = true
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // a fixed date, so that pages change with the commands only
	head := &doc.GenManHeader{Section: "1", Source: "Pando", Manual: "Pando", Date: &day}
	if err := doc.GenManTree(root, head, dir); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.Glob(dir + "/*.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range want {
		made, err := os.ReadFile(page)
		if err == nil {
			err = os.WriteFile(page, plainValues(made), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.RemoveAll(manDir); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(manDir, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	have, err := filepath.Glob(manDir + "/*.1")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 50 || len(have) != len(want) {
		t.Errorf("%s has %d pages, there are %d commands", manDir, len(have), len(want))
	}
	for _, page := range want {
		made, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join(manDir, filepath.Base(page)))
		if err != nil || !slices.Equal(kept, made) {
			t.Errorf("%s: not what the command says (%v); run go test ./internal/cli -update", filepath.Base(page), err)
		}
		if bytes.Contains(made, []byte("=[]")) || bytes.Contains(made, []byte("=map[")) {
			t.Errorf("%s: a value in Go's notation", filepath.Base(page))
		}
	}
}

// plainValues removes from a man page the values that pflag writes for unset flags.
func plainValues(page []byte) []byte {
	unset := regexp.MustCompile(`(?m)^(\\fB--[a-z0-9-]+\\fP|\\fB-[a-z]\\fP, \\fB--[a-z0-9-]+\\fP)(=\[\]|=""|=0|=0s|=|\[=false\])$`)
	return unset.ReplaceAllFunc(page, func(line []byte) []byte {
		name, value, _ := bytes.Cut(line, []byte("="))
		if string(value) == "false]" {
			return bytes.TrimSuffix(name, []byte("["))
		}
		return append(bytes.Clone(name), "=VALUE"...)
	})
}

// walk calls do for a command and for all commands below it.
func walk(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		walk(sub, do)
	}
}

// TestFlagsNameTheirValues: the name of a flag's value is one word. pflag takes words in backquotes in a flag's help
// for that name.
func TestFlagsNameTheirValues(t *testing.T) {
	t.Setenv("PANDO_SERVER", "")
	walk(newRoot(&cmdenv.Env{}), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
				t.Errorf("%s --%s: the value is called %q", c.CommandPath(), f.Name, name)
			}
		})
	})
}

// describe writes a command and all commands below it.
func describe(w *strings.Builder, c *cobra.Command) {
	topic := c.IsAdditionalHelpTopicCommand()
	if !c.IsAvailableCommand() && !topic && c.HasParent() {
		return
	}
	switch {
	case topic:
		fmt.Fprintf(w, "\n## %s\n\n%s\n", c.Short, markdown(c.Long))
		return
	case c.HasParent():
		use := strings.TrimSuffix(c.UseLine(), " [flags]")
		fmt.Fprintf(w, "\n%s `%s`\n\n%s.\n", strings.Repeat("#", min(4, 2+depth(c))), use, c.Short)
		if c.Long != "" {
			fmt.Fprintf(w, "\n%s\n", markdown(c.Long))
		}
		if c.Example != "" {
			fmt.Fprintf(w, "\n    %s\n", strings.ReplaceAll(strings.TrimLeft(c.Example, " "), "\n", "\n  "))
		}
	default:
		fmt.Fprintf(w, "\n## Flags of every command\n")
	}
	flags(w, c)
	subs := slices.Clone(c.Commands())
	slices.SortStableFunc(subs, func(a, b *cobra.Command) int { // topics first
		if a, b := a.IsAdditionalHelpTopicCommand(), b.IsAdditionalHelpTopicCommand(); a != b {
			if a {
				return -1
			}
			return 1
		}
		return 0
	})
	for _, sub := range subs {
		describe(w, sub)
	}
}

// markdown escapes characters of plain help text that Markdown would interpret. Indented text stays code.
func markdown(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "    ") && !strings.Contains(line, "`") {
			lines[i] = strings.NewReplacer("*", `\*`, "<", `\<`).Replace(line)
		}
	}
	return strings.Join(lines, "\n")
}

func depth(c *cobra.Command) int {
	n := 0
	for ; c.HasParent(); c = c.Parent() {
		n++
	}
	return n
}

// placeholders are what pflag calls kinds of values, in words for people.
var placeholders = strings.NewReplacer(
	"STRINGARRAY",
	"VALUE ...",
	"STRINGS",
	"VALUE,...",
	"STRING",
	"VALUE",
	"INT",
	"N",
)

// flags writes a table of a command's own flags.
func flags(w *strings.Builder, c *cobra.Command) {
	set := c.NonInheritedFlags()
	if !set.HasAvailableFlags() {
		return
	}
	bar := strings.NewReplacer("|", `\|`)
	fmt.Fprintf(w, "\n| flag | |\n| --- | --- |\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		value := ""
		if name != "" {
			value = " " + placeholders.Replace(strings.ToUpper(name))
		}
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" &&
			!strings.Contains(usage, "default") {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "| `--%s%s` | %s |\n", bar.Replace(f.Name), bar.Replace(value), bar.Replace(usage))
	})
}
