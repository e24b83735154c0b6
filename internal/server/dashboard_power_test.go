package server

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/hooks"
)

// TestDashboardSwitchesANode: a node is switched on its page, which shows the result without a reload, also if it takes
// longer than a browser waits.
func TestDashboardSwitchesANode(t *testing.T) {
	on, base, token := startDashboard(t)
	s := switchedBy(t, on, fleet.Settings{})
	const node = "pc001"
	s.node(node, 1)
	v := startBrowser(t, base)
	v.Login(token)
	v.Open("/nodes/" + node)
	do := func(action string, sure bool) {
		t.Helper()
		v.Until(`document.getElementById("power")`)
		v.Run(`window.form = document.getElementById("power").form; form.elements.action.value = "` + action + `"`)
		if sure {
			v.Run(`form.elements.sure.checked = true`)
		}
		v.Run(`form.requestSubmit()`)
		v.Arrived()
	}
	do("on", false)
	v.Until(`document.querySelector(".outcome")?.innerText.includes("switched on")`)
	v.Accessible("a node that was switched")
	if got := s.log(); got != node+" on" {
		t.Errorf("the relay did %q", got)
	}

	slow := "#!/bin/sh\nwhile [ ! -e " + filepath.Join(
		s.cfg.Dir,
		"go",
	) + " ]; do sleep 0.1; done\n" + strings.TrimPrefix(
		relay,
		"#!/bin/sh\n",
	)
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, hooks.Dir, "relay"), []byte(slow), 0o755); err != nil {
		t.Fatal(err)
	}
	do("off", true)
	v.Until(`document.querySelector(".outcome")?.innerText.includes("under way")`)
	v.Run(`window.sameDocument = true`)
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	v.Until(`document.querySelector(".outcome")?.innerText.includes("asked to shut down")`)
	if v.Run(`window.sameDocument`) != "true" {
		t.Error("the page was loaded again")
	}
	v.Quiet("power")
	v.Run(`document.querySelector(".outcome").scrollIntoView(), 0`)
	v.Keep("node-power")

	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "relay", node+".cycle.fails"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := loggedIn(t, base, token)
	for _, x := range []struct{ action, sure, want string }{
		{"cycle", "", "stop the programs that run on " + node},
		{"stage", "yes", "this page cannot do"},
		{"cycle", "yes", "the relay is stuck"},
	} {
		if got := c.power(t, node, x.action, x.sure); !strings.Contains(got, x.want) {
			t.Errorf("%s: no %q on the page:\n%s", x.action, x.want, got)
		}
	}
}

// desk is a logged-in user without a browser.
type desk struct {
	http.Client
	base string
}

func loggedIn(t *testing.T, base, token string) *desk {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{http.Client{Jar: jar}, base}
	resp, err := d.PostForm(base+"/login", url.Values{"token": {token}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return d
}

// power sends the form of a node's page, and returns the response.
func (d *desk) power(t *testing.T, node, action, sure string) string {
	t.Helper()
	page := d.text(t, func() (*http.Response, error) { return d.Get(d.base + "/nodes/" + node) })
	_, rest, _ := strings.Cut(page, `name="form" value="`)
	form, _, _ := strings.Cut(rest, `"`)
	return d.text(t, func() (*http.Response, error) {
		return d.PostForm(
			d.base+"/nodes/"+node+"/power",
			url.Values{"form": {form}, "action": {action}, "sure": {sure}},
		)
	})
}

func (d *desk) text(t *testing.T, ask func() (*http.Response, error)) string {
	t.Helper()
	resp, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
