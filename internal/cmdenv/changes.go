package cmdenv

import (
	"fmt"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/output"
)

// PrintChange prints the changes of something that nodes boot with, and how many nodes they affect.
func PrintChange(env *Env, of string, changed []string, dryRun bool, nodes int) {
	what := strings.Join(changed, "; ")
	if what == "" {
		what = "as it was"
	}
	env.Printf("%s: %s\n", of, what)
	now := slices.ContainsFunc(changed, atOnce)
	later := slices.ContainsFunc(changed, func(c string) bool { return !atOnce(c) })
	switch {
	case dryRun && now && !later:
		env.Printf("%d nodes would follow, those that run at once; nothing was done\n", nodes)
	case dryRun:
		env.Printf("the next boot of %d nodes would differ; nothing was done\n", nodes)
	case now && later:
		env.Printf("the next boot of %d nodes differs; in extensions, those that run follow at once\n", nodes)
	case now:
		env.Printf("%d nodes follow: those that run at once, others at their next boot\n", nodes)
	case later:
		env.Printf("the next boot of %d nodes differs\n", nodes)
	}
}

// PrintChanges prints what a request did to each node.
func PrintChanges(env *Env, did string, ch api.Changes) error {
	if env.JSON {
		return output.JSON(env.Out, ch)
	}
	changed := 0
	same := map[string][]string{} // change -> nodes
	var order []string
	for _, n := range ch.Nodes {
		what := strings.Join(n.Fields, "; ")
		if what == "" {
			what = "as it was"
		} else {
			changed++
		}
		if same[what] == nil {
			order = append(order, what)
		}
		same[what] = append(same[what], n.Node)
	}
	for _, what := range order {
		env.Printf("%s: %s\n", fleet.Fold(same[what]), what)
	}
	if ch.DryRun {
		env.Printf("%d of %d nodes would be %s; nothing was done\n", changed, len(ch.Nodes), did)
		return nil
	}
	env.Printf("%d of %d nodes %s\n", changed, len(ch.Nodes), did)
	return nil
}

// atOnce reports whether running nodes apply a change without a reboot. The change is a line from the server.
func atOnce(change string) bool {
	for _, x := range fleet.SettingTable() {
		if x.Effect == fleet.AtOnce && strings.HasPrefix(change, x.Label()+":") {
			return true
		}
	}
	return false
}

// PackageCounts returns how many packages changed in which way: "1 added, 2 rebuilt".
func PackageCounts(packages []api.PackageChange) string {
	count := map[api.PackageKind]int{}
	for _, p := range packages {
		count[p.Change]++
	}
	var parts []string
	for _, kind := range []struct {
		of   api.PackageKind
		text string
	}{
		{api.PackageAdded, "%d added"}, {api.PackageRemoved, "%d removed"}, {api.PackageChanged, "%d changed"},
		{api.PackageRebuilt, "%d only rebuilt"}, {api.PackageTogether, "%d unchanged, fetched in part beside these"},
	} {
		if n := count[kind.of]; n > 0 {
			parts = append(parts, fmt.Sprintf(kind.text, n))
		}
	}
	return strings.Join(parts, ", ")
}
