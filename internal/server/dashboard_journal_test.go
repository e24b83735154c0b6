package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/server/logs"
)

// TestDashboardJournal: a node's page shows the end of its journal, filtered by unit and text. It grows live, also
// after a restart of the server. Markup in a journal is shown as text.
func TestDashboardJournal(t *testing.T) {
	s, base, token := startDashboard(t, func(c *Config) { c.Logs = logs.On })
	if !s.journals.Kept() {
		t.Skip("systemd-journal-remote is not installed")
	}
	s.policy(fleet.Open)
	s.addImage()
	n := s.node(1).sends()
	name := s.nameOf(n.mac)
	v := startBrowser(t, base)
	v.Login(token)
	v.Open("/nodes/" + name)
	if got := v.Run(`document.body.innerText`); !strings.Contains(got, "has not come to the image") {
		t.Errorf("a node without a journal: %s", got)
	}
	say := func(i int, unit, text string) {
		t.Helper()
		if code, answer := n.upload(strings.NewReader(journalEntry(i, unit, text))); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, answer)
		}
	}
	say(1, "ssh.service", "first <b>line</b>")
	say(2, "cron.service", "of cron")
	v.Open("/nodes/" + name)
	v.Until(
		`document.getElementById("journal").textContent.includes("ssh[7]: first <b>line</b>") && document.getElementById("pulse").textContent === "live"`,
	)
	say(3, "ssh.service", "second line")
	v.Until(`document.getElementById("journal").textContent.includes("second line")`)
	v.Accessible("journal")
	v.Keep("journal")
	v.Run(
		`document.getElementById("unit").value = "ssh"; document.getElementById("grep").value = "line"; document.querySelector("form[role=search] button").click()`,
	)
	v.Arrived()
	v.Until(`document.getElementById("journal").textContent.split("\n").length === 3`)
	for i := range 3 {
		say(4+2*i, "cron.service", "another line of cron")
		say(5+2*i, "ssh.service", fmt.Sprintf("live line %d", i))
	}
	v.Until(`document.getElementById("journal").textContent.includes("live line 2")`)
	if got := v.Run(`document.getElementById("journal").textContent`); strings.Contains(got, "cron") ||
		strings.Count(got, "live line") != 3 {
		t.Errorf("the page shows\n%s", got)
	}
	v.Quiet("journal")
	s.cfg.Control = fmt.Sprintf("127.0.0.1:%d", s.ports.Control)
	s.restart()
	say(20, "ssh.service", "line after a restart")
	v.Until(`document.getElementById("journal").textContent.includes("line after a restart")`)
	n = s.node(1).sends()
	say(1, "ssh.service", "line of the next boot")
	v.Until(`document.getElementById("journal").textContent.includes("line of the next boot")`)
	v.Open("/nodes/" + name + "?grep=%28")
	if got := v.Run(`document.body.innerText`); !strings.Contains(got, "regular expression") {
		t.Errorf("a pattern that is none: %s", got)
	}
}
