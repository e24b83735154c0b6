package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pando/internal/cmdenv"
	"pando/internal/exitcode"
)

// cliDoc holds hand-written words and, after the mark, the reference that is made from the commands themselves.
const (
	cliDoc     = "../../docs/cli.md"
	cliDocMark = "<!-- from here on made by `go test ./cmd/pando -update` -->\n"
)

// TestCLIDoc: every command and flag is in docs/cli.md, as it is.
func TestCLIDoc(t *testing.T) {
	b, err := os.ReadFile(cliDoc)
	if err != nil {
		t.Fatal(err)
	}
	words, got, ok := strings.Cut(string(b), cliDocMark)
	if !ok {
		t.Fatalf("%s has no line %s", cliDoc, cliDocMark)
	}
	var want strings.Builder
	t.Setenv("PANDO_SERVER", "")
	root := newRoot(&cmdenv.Env{})
	describe(&want, root)
	if *update {
		if err := os.WriteFile(cliDoc, []byte(words+cliDocMark+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want.String() {
		t.Errorf("%s is not what the commands say; run go test ./cmd/pando -update", cliDoc)
	}
	for c, meaning := range exitCodes {
		if !strings.Contains(words, fmt.Sprintf("| %d | %s |", c, meaning)) {
			t.Errorf("exit code %d (%s) is not in the table of %s", c, meaning, cliDoc)
		}
	}
}

// exitCodes are the exit codes as they are documented.
var exitCodes = map[int]string{
	exitcode.OK: "done", exitcode.Failed: "tried, and failed", exitcode.Usage: "the command line makes no " +
		"sense", exitcode.NotFound: "no such node, group, image, boot or token",
	exitcode.Conflict: "exists already, or is still in use", exitcode.Unreachable: "no server answers", exitcode.Denied: "the server does not know the token",
	exitcode.Problem: "`doctor`, `up`: something keeps nodes from booting; `store check`, `image verify`: something is " +
		"broken", exitcode.Warning: "`doctor`: nothing worse than warnings", exitcode.Returned: "`rollout`: it halted, or " +
		"returned to the version before", exitcode.Interrupted: "stopped by SIGINT or SIGTERM",
}

func describe(w *strings.Builder, c *cobra.Command) {
	if !c.IsAvailableCommand() && c.HasParent() {
		return
	}
	if c.HasParent() {
		fmt.Fprintf(
			w,
			"\n%s `%s`\n\n%s.\n",
			strings.Repeat("#", min(4, 2+depth(c))),
			strings.TrimSuffix(c.UseLine(), " [flags]"),
			c.Short,
		)
		if c.Long != "" {
			fmt.Fprintf(w, "\n%s\n", c.Long)
		}
		if c.Example != "" {
			fmt.Fprintf(w, "\n    %s\n", strings.ReplaceAll(strings.TrimLeft(c.Example, " "), "\n", "\n  "))
		}
	} else {
		fmt.Fprintf(w, "\n## Flags of every command\n")
	}
	flags(w, c)
	for _, sub := range c.Commands() {
		describe(w, sub)
	}
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

func flags(w *strings.Builder, c *cobra.Command) {
	set := c.NonInheritedFlags()
	if !set.HasAvailableFlags() {
		return
	}
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
		fmt.Fprintf(w, "| `--%s%s` | %s |\n", f.Name, value, strings.ReplaceAll(usage, "|", "\\|"))
	})
}
