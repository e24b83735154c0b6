package updates

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// plannedDay is one day's change of the tree.
type plannedDay struct {
	What     string   `json:"what"`
	Update   bool     `json:"update"`
	Packages []string `json:"packages,omitempty"` // installed packages; none: a file is edited
}

// wanted are small programs without new dependencies that an administrator may install.
var wanted = []string{"tree", "lsof", "ncdu", "strace"}

// planDays distributes Debian's updates over some days: one source package a day, ordered by name. On the days between,
// a configuration file is edited or a program installed.
func planDays(updates []sourceUpdate, days int) (out []plannedDay) {
	updates = updates[:min(len(updates), days)]
	others := 0
	for n := range days {
		if at := n * len(updates) / days; at < (n+1)*len(updates)/days {
			out = append(
				out,
				plannedDay{What: "update of " + updates[at].source, Update: true, Packages: updates[at].packages},
			)
			continue
		}
		others++
		if program := others/2 - 1; others%2 == 0 && program < len(wanted) {
			out = append(
				out,
				plannedDay{What: wanted[program] + " is installed", Packages: wanted[program : program+1]},
			)
			continue
		}
		out = append(out, plannedDay{What: "a configuration file is edited"})
	}
	return out
}

// do makes the change that is planned for a day.
func (t updateTree) do(ctx context.Context, d plannedDay) error {
	if len(d.Packages) == 0 {
		return t.edit()
	}
	return t.install(ctx, d.Update, d.Packages...)
}

// edit adds a line to a configuration file.
func (t updateTree) edit() error {
	f, err := os.OpenFile(filepath.Join(t.path, "etc/ssh/sshd_config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, "# edited")
	return errors.Join(err, f.Close())
}
