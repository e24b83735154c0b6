package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/identity"
	"pando/internal/ship"
)

// hostile is text that a malicious machine may report: it would set a terminal's title, clear the screen, change the
// writing direction, and add a line that looks like Pando's.
const hostile = "EVIL\x1b]0;x\x07\x1b[2J\u009b2J\u202eabc\u2066\u2028\x00\x7f\x85\r\nFALSE LINE\tCOLUMN"

// TestCommandsPrintNoControls: every command that calls the server gets hostile text in all answers and errors. It must
// print no control character and no additional line.
func TestCommandsPrintNoControls(t *testing.T) {
	t.Setenv("PANDO_SERVER", "")
	s := hostileServer{t: t, dir: t.TempDir()}
	s.start()
	t.Chdir(s.dir)
	files := hostileTables()
	files["file"], files["fleet.yaml"] = "text", "groups:\n  lab:\n    image: lab:stable\n"
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.makeStick()
	shown := map[string]bool{}
	for _, c := range leaves(newRoot(&cmdenv.Env{})) {
		path := strings.TrimPrefix(c.CommandPath(), "pando ")
		if why := localOnly[path]; why != "" {
			continue
		}
		for _, given := range s.commandArgs(path, c) {
			args := append(strings.Fields(path), given...)
			for _, s.refuse = range []bool{false, true} {
				out, errs := s.run(t, args)
				if strings.Contains(errs, "decode answer") {
					t.Errorf("pando %s does not understand the server: %s", strings.Join(args, " "), errs)
				}
				checkPlain(t, args, out, errs)
				shown[path] = shown[path] || strings.Contains(strings.ToUpper(out+errs), "EVIL")
				if c.Flag("json") != nil {
					checkPlain(t, args, s.runJSON(t, args), "")
				}
			}
		}
	}
	for path := range shown {
		if !shown[path] {
			t.Errorf("pando %s printed nothing of what the server said: give it arguments in givenArgs", path)
		}
	}
	if len(shown) < 60 {
		t.Errorf("only %d commands ran", len(shown))
	}
}

// localOnly are commands that do not call the server, or that first do long work on this machine.
var localOnly = map[string]string{
	"serve":         "is the server",
	"up":            "is the server",
	"version":       "is of this program",
	"store check":   "reads the store itself",
	"key import":    "reads signatures first",
	"image build":   "builds",
	"image shell":   "builds",
	"image capture": "builds",
	"image extend":  "builds",
}

// givenArgs are the arguments of commands whose usage line is not enough to derive them.
var givenArgs = map[string]string{
	"boot show":      "pc1",
	"boot export":    "pc1",
	"image delete":   "lab:old",
	"media create":   "pc1 --output medium.img",
	"plan":           "--nodes 3 --image lab",
	"lease delete":   "10.0.0.1",
	"loader import":  "file",
	"config show":    "all /etc/x",
	"config delete":  "all /etc/x",
	"config set":     "all /etc/x --from file",
	"rollout show":   "r1",
	"rollout watch":  "r1",
	"rollout pause":  "r1",
	"rollout resume": "r1",
	"rollout abort":  "r1",
	"apply":          "-f fleet.yaml --yes",
	"user set":       "desk --role viewer",
	"doctor":         "--quick --interface nosuch0", // without probes of this machine
}

// hostileLine is hostile text as it may stand in a file: no zero byte, and quoted for a spreadsheet or YAML.
var hostileLine = strings.NewReplacer("\x00", "", "\x85", "\u0085").Replace(hostile)

// hostileTables are tables of nodes whose cells, or whose columns, are hostile text.
func hostileTables() map[string]string {
	oneLine := strings.ReplaceAll(hostileLine, "\n", "")
	cell, quoted := `"`+hostileLine+`"`, strconv.QuoteToASCII(hostileLine)
	yamlText := strings.NewReplacer(`\x`, `\u00`).Replace(quoted)
	tables := map[string]string{
		"head.csv":  "name," + cell + "\npc1,x\n",
		"label.csv": "name," + `"label:` + hostileLine + `"` + "\npc1,x\n",
		"dhcp.conf": "host " + oneLine + " { hardware ethernet 52:54:00:00:00:01; }\n",
		"dnsmasq":   "dhcp-host=52:54:00:00:00:01," + oneLine + "\n",
		"ethers":    "52:54:00:00:00:01 " + strings.ReplaceAll(hostileLine, " ", "") + "\n",
		"key.yaml":  "- {name: pc1, " + yamlText + ": x}\n",
		"list.yaml": yamlText + "\n",
		"good.csv":  "name,serial\npc1,X123\n",
	}
	for _, column := range []string{"name", "mac", "serial", "group", "labels", "address", "image", "kernel_args"} {
		if column == "name" {
			tables["name.csv"] = "name\n" + cell + "\n"
		} else {
			tables[column+".csv"] = "name," + column + "\npc1," + cell + "\n"
		}
		tables[column+".yaml"] = "- {" + column + ": " + yamlText + "}\n"
	}
	return tables
}

// commandArgs returns the arguments that a command is tried with.
func (s *hostileServer) commandArgs(path string, c *cobra.Command) (all [][]string) {
	switch path {
	case "image pull":
		return [][]string{{s.other, "lab"}, {"./stick", "lab"}, {"./stick", "lab:stable"}}
	case "image push":
		return [][]string{{"lab", s.other}, {"lab", "./pushed"}}
	case "node import":
		for name := range hostileTables() {
			all = append(all, []string{name, "--yes"}, []string{name, "--group", "lab", "--dry-run"})
		}
		return all
	}
	return [][]string{usageArgs(path, c)}
}

// checkPlain looks for characters that control a terminal, and for lines that begin with the second line of the hostile
// text.
func checkPlain(t *testing.T, args []string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			bad := strings.ContainsFunc(line, func(r rune) bool {
				return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
			})
			if bad || strings.HasPrefix(line, "FALSE LINE") {
				t.Errorf("pando %s printed %q", strings.Join(args, " "), line)
			}
		}
	}
}

// leaves returns the commands without subcommands.
func leaves(c *cobra.Command) []*cobra.Command {
	if !c.HasSubCommands() {
		if c.Runnable() {
			return []*cobra.Command{c}
		}
		return nil
	}
	var all []*cobra.Command
	for _, sub := range c.Commands() {
		all = append(all, leaves(sub)...)
	}
	return all
}

var argument = regexp.MustCompile(`[A-Z][A-Z0-9@:-]*`)

// usageArgs derives arguments from a command's usage line.
func usageArgs(path string, c *cobra.Command) []string {
	if given, ok := givenArgs[path]; ok {
		return strings.Fields(given)
	}
	var args []string
	for _, word := range argument.FindAllString(strings.TrimPrefix(c.Use, c.Name()), -1) {
		args = append(args, strings.ToLower(word))
	}
	if c.Flag("yes") != nil {
		args = append(args, "--yes")
	}
	return args
}

// hostileServer answers the operator's API with hostile text, following the schemas of openapi.json.
type hostileServer struct {
	t      *testing.T
	dir    string
	other  string // URL, for commands that ask another server
	refuse bool
	doc    map[string]any
}

func (s *hostileServer) start() {
	b, err := os.ReadFile("../server/openapi.json")
	if err == nil {
		err = json.Unmarshal(b, &s.doc)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(s.dir, "pando.sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, methods := range s.doc["paths"].(map[string]any) {
		for method, op := range methods.(map[string]any) {
			mux.HandleFunc(strings.ToUpper(method)+" "+path, s.answer(op.(map[string]any)))
		}
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go server.Serve(l) //nolint:errcheck // it ends with the test
	s.t.Cleanup(func() { server.Close() })
	s.startOther(server)
}

// makeStick makes a directory of images whose tags are hostile text.
func (s *hostileServer) makeStick() {
	names, err := json.Marshal(map[string]map[string]string{"lab": {hostile: "sha256:" + strings.Repeat("ab", 32)}})
	if err == nil {
		err = os.MkdirAll("stick/manifests", 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join("stick", ship.NamesFile), names, 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// startOther has the server answer with TLS, too, as another site's would.
func (s *hostileServer) startOther(server *http.Server) {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	secure, err := identity.ServerTLS(key)
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", secure)
	if err != nil {
		s.t.Fatal(err)
	}
	go server.Serve(l) //nolint:errcheck // it ends with the test
	s.other = "https://" + l.Addr().String()
	s.t.Setenv("PANDO_OTHER_TOKEN", api.FormatToken("secret", public))
}

func (s *hostileServer) answer(op map[string]any) http.HandlerFunc {
	responses, _ := op["responses"].(map[string]any)
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if s.refuse {
			w.WriteHeader(http.StatusConflict)
			body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": "conflict", "message": hostile,
				"hint": hostile}})
			_, _ = w.Write(body)
			return
		}
		ok, _ := responses["200"].(map[string]any)
		content, _ := ok["content"].(map[string]any)
		for kind, body := range content {
			schema, _ := body.(map[string]any)["schema"].(map[string]any)
			v, _ := json.Marshal(s.value(schema, 0))
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(v)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// value returns a value of a schema with hostile text in every string.
func (s *hostileServer) value(schema map[string]any, depth int) any {
	if ref, ok := schema["$ref"].(string); ok {
		all := s.doc["components"].(map[string]any)["schemas"].(map[string]any)
		return s.value(all[filepath.Base(ref)].(map[string]any), depth+1)
	}
	switch schema["type"] {
	case "object":
		out := map[string]any{}
		props, _ := schema["properties"].(map[string]any)
		for name, p := range props {
			if depth < 8 {
				out[name] = s.property(name, p.(map[string]any), depth+1)
			}
		}
		if more, ok := schema["additionalProperties"].(map[string]any); ok {
			out[hostile] = s.value(more, depth+1)
		}
		return out
	case "array":
		items, _ := schema["items"].(map[string]any)
		if depth > 8 {
			return []any{}
		}
		return []any{s.value(items, depth+1)}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "string":
		return s.text(schema)
	}
	return hostile
}

// property returns the value of a property. Some are no text that anybody may choose.
func (s *hostileServer) property(name string, schema map[string]any, depth int) any {
	switch {
	case name == "wave" && schema["type"] == "integer":
		return 0 // it is used as an index
	case name == "for" && schema["type"] == "array":
		return []any{"all"}
	case name == "for" && schema["type"] == "string":
		return "all"
	}
	return s.value(schema, depth)
}

func (s *hostileServer) text(schema map[string]any) string {
	pattern, _ := schema["pattern"].(string)
	about, _ := schema["description"].(string)
	enum, _ := schema["enum"].([]any)
	switch {
	case len(enum) > 0:
		return enum[0].(string)
	case schema["format"] == "date-time":
		return "2026-11-28T12:00:00Z"
	case schema["format"] == "byte", schema["format"] == "binary":
		return base64.StdEncoding.EncodeToString([]byte("content"))
	case strings.Contains(pattern, "sha256"):
		return "sha256:" + strings.Repeat("ab", 32)
	case strings.Contains(pattern, "{5}"):
		return "52:54:00:00:00:01"
	case strings.Contains(pattern, "{16}"):
		return "0123456789abcdef"
	case schema["format"] == "ip", strings.Contains(about, "IPv4 address"):
		return "10.0.0.1"
	case schema["format"] == "mac":
		return "52:54:00:00:00:01"
	case schema["format"] == "cidr":
		return "10.0.0.1/8"
	}
	return hostile
}

func (s *hostileServer) run(t *testing.T, args []string) (stdout, stderr string) {
	var out, errs bytes.Buffer
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	Run(
		ctx,
		"dev",
		append([]string{"--data", s.dir}, args...),
		strings.NewReader("a password of some length\n"),
		&out,
		&errs,
	)
	return out.String(), errs.String()
}

// runJSON runs a command with --json, and fails if the output is not JSON.
func (s *hostileServer) runJSON(t *testing.T, args []string) string {
	out, _ := s.run(t, append(args, "--json"))
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			return out
		} else if err != nil {
			t.Errorf("pando %s --json: %v in %q", strings.Join(args, " "), err, out)
			return out
		}
	}
}
