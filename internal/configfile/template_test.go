package configfile

import (
	"errors"
	"strings"
	"testing"

	"pando/internal/fleet"
)

var lab = Data{
	Name:    "pc001.lab",
	Host:    "pc001",
	MAC:     "52:54:00:00:00:01",
	IP:      "10.0.0.7",
	Labels:  map[string]string{"rack": "r3"},
	Group:   "lab",
	Classes: []string{"nvidia"},
	Serial:  "S1",
	Servers: []string{"10.0.0.1"},
}

func declared(content string) fleet.ConfigFile {
	return fleet.ConfigFile{
		For:     fleet.Scope{Kind: fleet.ForGroup, Name: "lab"},
		Path:    "/etc/motd",
		Content: []byte(content),
	}
}

func TestRender(t *testing.T) {
	secret := func(name string) (string, error) {
		if name != "munge" {
			return "", errors.New("group lab may not have secret " + name)
		}
		return "s3cr3t", nil
	}
	for _, c := range []struct{ name, template, want, problem string }{
		{"node", "{{.Name}} {{.Host}} {{.MAC}} {{.IP}} {{.Serial}} {{.Group}}", "pc001.lab pc001 " +
			"52:54:00:00:00:01 10.0.0.7 S1 lab", ""},
		{"label", `{{.Labels.rack}} {{label .Labels "row" "none"}}`, "r3 none", ""},
		{"functions", `{{join .Servers ","}} {{upper .Group}} {{printf "%03d" 7}} {{html "<"}}`, "10.0.0.1 LAB " +
			"007 &lt;", ""},
		{"loops", `{{range $i, $c := .Classes}}{{$i}}{{$c}}{{else}}none{{end}}{{range 3}}{{.}}{{end}}`, "0nvidia012",
			""},
		{"secret", `key {{secret "munge"}}`, "key s3cr3t", ""},
		{"missing label", "one\ntwo {{.Labels.row}}\n", "", "config file /etc/motd of group:lab:2: " +
			"{{.Labels.row}}: the node has no row"},
		{"missing field", "\n\n{{.Rack}}", "", "config file /etc/motd of group:lab:3: {{.Rack}}: can't evaluate " +
			"field Rack"},
		{"form", "a\n{{if}}", "", "config file /etc/motd of group:lab:2: missing value for if"},
		{"unknown function", "{{env}}", "", `config file /etc/motd of group:lab:1: function "env" not defined`},
		{"other secret", "\n{{secret \"krb5\"}}", "",
			`config file /etc/motd of group:lab:2: {{secret "krb5"}}: group lab may not have secret krb5`},
		{"secret in an error", `{{with secret "munge"}}{{.Foo}}{{end}}{{index .Servers (secret "munge")}}`, "",
			"config file /etc/motd of group:lab:1: "},
		{"long", `{{range 100000}}0123456789{{end}}`, "", "the file would have more than"},
		{"for ever", `{{$n := 2000000000}}{{range $n}}{{end}}`, "", "its loops run more than"},
		{"calls itself twice", `{{define "x"}}{{template "x"}}{{template "x"}}{{end}}{{template "x"}}`, "",
			"config file /etc/motd of group:lab:1:"},
		{"doubles", `{{$x := "0123456789"}}{{range 60}}{{$x = print $x $x}}{{end}}{{$x}}`, "", "the file would " +
			"have more than"},
		{"escapes", `{{$x := "<<<<<<<<"}}{{range 60}}{{$x = urlquery $x}}{{end}}{{$x}}`, "%252525", ""},
		{"wide", `{{printf "%0999999999d" 1}}`, "", "a width of more than three digits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Render(declared(c.template), lab, secret)
			if c.problem == "" {
				if err != nil || !strings.Contains(string(got.Data), c.want) {
					t.Fatalf("got %q, %v; want %q", got.Data, err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Fatalf("got %q, error %v; want %q", got.Data, err, c.problem)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}

func TestRenderedMode(t *testing.T) {
	secret := func(string) (string, error) { return "x", nil }
	for _, c := range []struct {
		content  string
		verbatim bool
		mode     uint32
		want     uint32
	}{
		{"plain", false, 0, 0o644}, {`{{secret "a"}}`, false, 0, 0o600}, {`{{secret "a"}}`, false, 0o640, 0o640},
		{`{{secret "a"}}`, true, 0, 0o644},
	} {
		f := declared(c.content)
		f.Verbatim, f.Mode = c.verbatim, c.mode
		got, err := Render(f, lab, secret)
		if err != nil || got.Mode != c.want {
			t.Errorf(
				"%q verbatim %v mode %o: got %o, %v; want %o",
				c.content,
				c.verbatim,
				c.mode,
				got.Mode,
				err,
				c.want,
			)
		}
		if c.verbatim && string(got.Data) != c.content {
			t.Errorf("what is verbatim was rendered: %q", got.Data)
		}
	}
}

// FuzzRender: any template renders to a file of bounded size, or to an error that names the file.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"{{.Name}}", "{{range .MACs}}{{.}}{{end}}",
		`{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`,
		`{{with $x := .Labels}}{{$x.rack}}{{else}}none{{end}}`, `{{secret "a"}}`, "{{range 1000000}}x{{end}}",
		"{{/* */}}", "{{- 1 -}}",
		`{{printf "%[1]999d" 1}}`, `{{join .Classes (secret "a")}}`, `{{block "b" .}}{{break}}{{end}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		file := declared(content)
		got, err := Render(file, lab, func(string) (string, error) { return "q9Zs3cr3t", nil })
		if err != nil &&
			(!strings.HasPrefix(err.Error(), "config file /etc/motd of "+
				"group:lab") || strings.Contains(err.Error(), "q9Zs3cr3t")) {
			t.Errorf("%q: %v", content, err)
		}
		if len(got.Data) > fleet.MaxConfigFile {
			t.Errorf("%q: %d bytes", content, len(got.Data))
		}
		if err == nil && Check(file) != nil {
			t.Errorf("%q: rendered, and its check says %v", content, Check(file))
		}
	})
}
