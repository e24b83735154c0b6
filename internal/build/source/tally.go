package source

import "fmt"

// tally counts files in a tree that people may want to know about, each kind with the first name.
type tally struct {
	setuid, capable, devices, dropped, acls some
}

type some struct {
	count int
	first string
}

func (s *some) add(name string) {
	if s.count++; s.count == 1 {
		s.first = name
	}
}

// notes describes the counts for people. They are no faults: a system needs set-uid programs.
func (t *tally) notes() []string {
	var out []string
	for _, n := range []struct {
		some
		text string
	}{
		{t.setuid, "set-uid programs are kept"},
		{t.capable, "programs with file capabilities are kept"},
		{t.devices, "device nodes are kept"},
		{t.acls, "ACLs are lost, since they name accounts or are of NFSv4: write the archive with --xattrs " +
			"--xattrs-include='*'"},
		{t.dropped, "attributes of the machine that the tree comes from are left out"},
	} {
		if n.count > 0 {
			out = append(out, fmt.Sprintf("%d %s; the first is %s", n.count, n.text, shown(n.first)))
		}
	}
	return out
}
