package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"pando/internal/cmdenv"
)

var (
	// pageCommand matches a command line in a page: after a prompt or blanks, or in code.
	pageCommand = regexp.MustCompile("(?m)(?:^ {4,}(?:\\$ )?(?:[A-Z_]+=\\S+ )?|`|\\| )pando ([a-z][^`\n|;]*)")
	pageFlag    = regexp.MustCompile("(?:^|[ `])--([a-z][a-z-]+)")
	pageComment = regexp.MustCompile(`\s{2,}#.*$`)
	pageJoined  = regexp.MustCompile(`\\\n\s+`)
)

// TestCommandsOfPages: each command and each of its flags that a page for people has is one of this program.
func TestCommandsOfPages(t *testing.T) {
	t.Setenv("PANDO_SERVER", "")
	root := newRoot(&cmdenv.Env{})
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range append(files, "../../README.md", "../../CHANGELOG.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) == "cli.md" || strings.HasPrefix(filepath.Base(file), "benchmarks") {
			continue
		}
		for _, m := range pageCommand.FindAllStringSubmatch(pageJoined.ReplaceAllString(string(b), " "), -1) {
			found++
			checkPageCommand(t, file, root, pageComment.ReplaceAllString(m[1], ""))
		}
	}
	if found < 200 {
		t.Errorf("only %d commands were found", found)
	}
}

// checkPageCommand looks for the command that a line names, and for its flags.
func checkPageCommand(t *testing.T, file string, root *cobra.Command, line string) {
	t.Helper()
	c := root
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,)\"'", r) }) {
		next := subcommand(c, word)
		if next == nil {
			break
		}
		c = next
	}
	if c == root {
		t.Errorf("%s: there is no command of `pando %s`", file, line)
		return
	}
	line, _, _ = strings.Cut(line, " -- ") // what comes after is another program's
	for _, m := range pageFlag.FindAllStringSubmatch(line, -1) {
		if c.Flags().Lookup(m[1]) == nil && c.InheritedFlags().Lookup(m[1]) == nil {
			t.Errorf("%s: `%s` has no flag --%s", file, c.CommandPath(), m[1])
		}
	}
}

func subcommand(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}
