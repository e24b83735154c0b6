package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// updateDay is what is done in a tree on one day.
type updateDay struct {
	dayResult
	do func(context.Context) error
}

// Small programs that an administrator may want, each with nothing but what is there already.
var wanted = []string{"tree", "lsof", "ncdu", "strace"}

// plan spreads what Debian has newer over some days, a source package a day, in order of their names. On the days between, a
// program is installed or a configuration file edited; of a release that got no updates there would be no more.
func (t updateTree) plan(ctx context.Context, days int) ([]updateDay, error) {
	updates, err := t.updates(ctx)
	if err != nil {
		return nil, err
	}
	if len(updates) > days {
		updates = updates[:days]
	}
	var out []updateDay
	edits := 0
	for n := range days {
		if at := n * len(updates) / days; at < (n+1)*len(updates)/days {
			p := updates[at]
			out = append(out, updateDay{dayResult{What: "update of " + p.source, Update: true},
				func(ctx context.Context) error { return t.install(ctx, true, p.packages...) }})
			continue
		}
		edits++
		if edits%2 == 0 && edits/2 <= len(wanted) {
			name := wanted[edits/2-1]
			out = append(out, updateDay{dayResult{What: name + " is installed"},
				func(ctx context.Context) error { return t.install(ctx, false, name) }})
			continue
		}
		out = append(out, updateDay{dayResult{What: "a configuration file is edited"}, func(context.Context) error { return t.edit(n) }})
	}
	return out, nil
}

// edit adds a line to a file of configuration.
func (t updateTree) edit(n int) error {
	f, err := os.OpenFile(filepath.Join(t.path, "etc/ssh/sshd_config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "# day %d\n", n)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
