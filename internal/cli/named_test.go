package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"pando/internal/cmdenv"
)

// named matches commands that prose, hints or comments quote: `pando image list --json`.
var named = regexp.MustCompile("`pando ([a-z][^`\n]*[^` \n])`")

// TestNamedCommandsExist: commands and flags that hints and pages quote exist. People read them when something is
// broken.
func TestNamedCommandsExist(t *testing.T) {
	t.Setenv("PANDO_SERVER", "")
	found := 0
	for _, top := range []string{"../../README.md", "../../docs", "../../internal", "../../cmd"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") ||
				filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md" {
				return err
			}
			b, err := os.ReadFile(path)
			for _, m := range named.FindAllStringSubmatch(string(b), -1) {
				found++
				if why := misnamed(newRoot(&cmdenv.Env{}), m[1]); why != "" {
					t.Errorf("%s: %s: %s", path, m[0], why)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 200 {
		t.Errorf("only %d commands were found: are they quoted in another way?", found)
	}
	for _, wrong := range []string{"image check", "serve --no-such-flag", "nosuch"} {
		if misnamed(newRoot(&cmdenv.Env{}), wrong) == "" {
			t.Errorf("pando %s is taken for a command", wrong)
		}
	}
}

// misnamed returns what is wrong with a quoted command line, "" if nothing is. Placeholders such as NAME or %s stand
// for arguments.
func misnamed(root *cobra.Command, line string) string {
	words := strings.Fields(line)
	c, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if c.HasSubCommands() && len(rest) > 0 && word.MatchString(rest[0]) {
		return c.CommandPath() + " has no command " + rest[0]
	}
	c.InitDefaultHelpFlag()
	for _, w := range rest {
		name, isFlag := strings.CutPrefix(strings.TrimRight(w, ".,:;)"), "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && word.MatchString(name) && c.Flag(name) == nil {
			return c.CommandPath() + " has no flag --" + name
		}
	}
	return ""
}

var word = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
