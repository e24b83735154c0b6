package cmdenv

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// otherWords maps words of other programs to commands of this one: each entry is a word and its equivalents.
const otherWords = `
ls list, get list show, rm delete, remove delete, del delete, destroy delete, add create, new create, make create build,
edit set, change set, update set build, modify set, rename set, move set, mv set, info show, describe show,
inspect show, view show, cat show, restart reboot, reset reboot, reboot reboot, shutdown power, halt power, stop power,
off power, on power, poweroff power, start power, wake power, power power, rollback abort, cancel abort, undo abort,
log logs, journal logs, logs logs, download pull, upload push, rebuild build, upgrade build, monitor watch, top watch,
accept adopt, ssh shell, chroot shell, info status, check doctor, diagnose doctor, init up, run serve, daemon serve`

// collectWords are words of other programs for `pando store gc`.
var collectWords = []string{"gc", "prune", "clean", "cleanup", "purge"}

// otherWays returns the commands below c for the word that another program uses. Directly below the root it also
// looks below `node`.
func otherWays(c *cobra.Command, word string) (ways []string) {
	if found, _, err := c.Root().Find([]string{"store", "gc"}); err == nil && slices.Contains(collectWords, word) {
		return []string{"`" + found.CommandPath() + "`"}
	}
	for line := range strings.SplitSeq(otherWords, ",") {
		words := strings.Fields(line)
		if words[0] != word {
			continue
		}
		for _, w := range words[1:] {
			for _, path := range [][]string{{w}, {"node", w}} {
				found, _, err := c.Find(path)
				if err == nil && found.Name() == w && (len(path) == 1 || !c.HasParent()) {
					ways = append(ways, "`"+found.CommandPath()+"`")
				}
			}
		}
	}
	return ways
}

// SimilarFlags suggests flags that resemble an unknown flag of a command, "" for none.
func SimilarFlags(c *cobra.Command, wrong error) string {
	_, name, ok := strings.Cut(wrong.Error(), "unknown flag: --")
	if !ok {
		return ""
	}
	names := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra suggests names of commands only
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	var similar []string
	for _, s := range names.SuggestionsFor(name) {
		similar = append(similar, "--"+s)
	}
	if len(similar) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(similar, " or ") + "? "
}
