package boot

import (
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// classes declares a hardware class that the node belongs to and one that it does not, each with a file and a kernel
// argument.
func (s *site) classes() {
	s.t.Helper()
	for name, vendor := range map[string]string{"emulated": "QEMU*", "elsewhere": "Dell*"} {
		c := fleet.Class{
			Name:       name,
			Match:      fleet.Match{Vendor: []string{vendor}},
			KernelArgs: []string{"lab.class=" + name},
		}
		if _, err := s.API.CreateClass(s.t.Context(), c); err != nil {
			s.t.Fatal(err)
		}
		s.declare("class:"+name, "/etc/lab/"+name, "of {{range .Classes}}{{.}}{{end}}\n", api.ConfigSet{})
	}
}

// haveClass expects a node to have the file and argument of its own class only, from its first boot on.
func (s *site) haveClass(n node, g *testkit.Guest) {
	s.t.Helper()
	record, err := s.API.Node(s.t.Context(), n.name)
	if err != nil || !slices.Equal(record.Classes, []string{"emulated"}) {
		s.t.Errorf("%s is of %q, %v", n.name, record.Classes, err)
	}
	if got := s.run(g, "cat /etc/lab/emulated; test ! -e /etc/lab/elsewhere"); got != "of emulated" {
		s.t.Errorf("the file of its class says %q", got)
	}
	if got := s.run(g, "cat /proc/cmdline"); !strings.Contains(got, "lab.class=emulated") ||
		strings.Contains(got, "lab.class=elsewhere") {
		s.t.Errorf("the kernel was told %s", got)
	}
}

// syncs: files declared while a node runs are written to it, with owner and mode, and their commands run. Files that
// were changed on the node are restored, and correct files are not touched.
func (s *site) syncs(n node, g *testkit.Guest) {
	s.t.Helper()
	const live = "/etc/lab/live"
	s.command("node", "set", n.name, "--label", "row=3") // which one of its files has lacked
	set := api.ConfigSet{
		ConfigFile: fleet.ConfigFile{
			Owner: "daemon:adm",
			Mode:  0o640,
			Run:   "stat -c '%U:%G %a' " + live + " >> /run/ran; cat " + live + " >> /run/ran",
		},
	}
	s.declare("@"+n.group, live, "first of {{.Name}}\n", set)
	s.run(
		g,
		"test ! -e "+live+"; echo changed > /etc/systemd/system/ssh.service.d/lab.conf; touch -d @1000000000 "+
			"/etc/lab/place",
	)
	if out := s.command("node", "sync", n.name, "--dry-run"); !strings.Contains(out, live) {
		s.t.Errorf("what would be done is told as\n%s", out)
	}
	s.run(g, "test ! -e "+live)
	if out := s.command("node", "sync", n.name); !strings.Contains(out, live) ||
		!strings.Contains(out, "ssh.service.d/lab.conf") ||
		strings.Contains(out, "/etc/lab/place") {
		s.t.Errorf("what was done is told as\n%s", out)
	}
	if got := s.run(g, "cat /run/ran; stat -c '%U:%G %a' "+live+"; "+
		"cat /etc/systemd/system/ssh.service.d/lab.conf; stat -c %Y /etc/lab/place"); got !=
		"daemon:adm 640\nfirst of "+n.name+"\ndaemon:adm 640\n[Service]\nEnvironment=LAB="+n.group+"\n1000000000" {
		s.t.Errorf("the node has\n%s", got)
	}
	s.declare("@"+n.group, live, "second\n", set)
	s.command("node", "sync", n.name)
	s.command("node", "sync", n.name) // nothing is left to do, and no command runs
	if got := s.run(g, "cat /run/ran"); got != "daemon:adm 640\nfirst of "+n.name+"\ndaemon:adm 640\nsecond" {
		s.t.Errorf("its commands have left\n%s", got)
	}
}
