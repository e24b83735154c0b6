package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/httpapi"
)

// TestDescriptionOfPaths: the paths of openapi.json match the routes and the client's methods, with the summaries and
// descriptions that are in the file. `go test ./internal/server -run TestDescription -update` updates the file.
func TestDescriptionOfPaths(t *testing.T) {
	routes := (&Server{}).operatorList()
	want, err := withPaths(description, routes, clientCalls(t, routes), describedTypes())
	if err != nil {
		t.Fatal(err)
	}
	updateDescription(t, want)
	if i := bytes.Index(want, []byte(`: ""`)); i >= 0 {
		t.Errorf("openapi.json lacks words or a method of the client: %s", want[max(0, i-300):i+4])
	}
}

// A new route gets what the code says about it, words of known routes stay, and removed routes are dropped.
func TestDescriptionFollowsRoutes(t *testing.T) {
	m, _ := reflect.TypeFor[*api.Client]().MethodByName("CopyState")
	routes := []httpapi.Route{{Method: "PUT", Path: "/v1/made/{up}"}, {Method: "GET", Path: "/v1/status"}}
	calls := map[string]clientCall{"PUT /v1/made/{up}": {m, []string{"dry"}, "application/json"}}
	doc, err := withPaths(description, routes, calls, describedTypes())
	var got struct{ Paths schema }
	if err := errors.Join(err, json.Unmarshal(doc, &got)); err != nil || len(got.Paths) != 2 {
		t.Fatalf("%v, %d paths", err, len(got.Paths))
	}
	for want, v := range map[string]any{
		`"How the site does."`: at(got.Paths, "/v1/status", "get", "summary"),
		`"CopyState"`:          at(got.Paths, "/v1/made/{up}", "put", "operationId"),
		`[{"name": "up", "in": "path", "required": true, "schema": {"type": "string"}}, ` +
			`{"name": "dry", "in": "query", "required": false, "description": "", "schema": {"type": "string"}}]`: at(
			got.Paths, "/v1/made/{up}", "put", "parameters"),
		`{"schema": {"$ref": "#/components/schemas/StateChange"}}`: at(
			got.Paths, "/v1/made/{up}", "put", "requestBody", "content", "application/json"),
		`{"schema": {"$ref": "#/components/schemas/StateOf"}}`: at(
			got.Paths, "/v1/made/{up}", "put", "responses", "200", "content", "application/json"),
	} {
		if compact(v) != want {
			t.Errorf("%s, want %s", compact(v), want)
		}
	}
}

// clientCall is what one method of the client requests.
type clientCall struct {
	method reflect.Method
	query  []string // names of parameters
	body   string   // media type, "" without a body
}

// clientCalls calls every method of the client on a server with these routes, and returns the calls by route.
func clientCalls(t *testing.T, routes []httpapi.Route) map[string]clientCall {
	t.Helper()
	calls, mux := map[string]clientCall{}, http.NewServeMux()
	var m reflect.Method
	for _, r := range routes {
		mux.HandleFunc(r.Method+" "+r.Path, func(w http.ResponseWriter, req *http.Request) {
			call := clientCall{method: m, body: req.Header.Get("Content-Type")}
			for name := range req.URL.Query() {
				call.query = append(call.query, name)
			}
			slices.Sort(call.query)
			calls[req.Pattern] = call
			_, _ = io.WriteString(w, "{}")
		})
	}
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	site := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	site.Start()
	t.Cleanup(site.Close)
	client := reflect.ValueOf(api.OverSocket(socket))
	for i := range client.NumMethod() {
		if m = client.Type().Method(i); m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue
		}
		in := []reflect.Value{reflect.ValueOf(t.Context())}
		for j := 2; j < m.Type.NumIn(); j++ {
			in = append(in, sample(m.Type.In(j)))
		}
		before := len(calls)
		if out := client.Method(i).Call(in)[0]; out.Kind() == reflect.Func { // a stream requests when it is read
			stop := func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(false)} }
			out.Call([]reflect.Value{reflect.MakeFunc(out.Type().In(0), stop)})
		}
		if len(calls) == before {
			t.Errorf("the client's method %s requests no route, or that of another method", m.Name)
		}
	}
	return calls
}

// sample returns a value of a type with text, numbers and switches that are not zero, so that they are sent.
func sample(typ reflect.Type) reflect.Value {
	v := reflect.New(typ).Elem()
	switch typ.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		for f := range typ.Fields() {
			if f.IsExported() {
				v.FieldByIndex(f.Index).Set(sample(f.Type))
			}
		}
	}
	return v
}

// The paths stand between these two parts of openapi.json.
const (
	pathsBegin = "  \"paths\": {\n"
	pathsEnd   = "\n  },\n  \"components\": {\n"
)

// withPaths returns a description with the paths of these routes. Summaries and descriptions are those in doc.
func withPaths(
	doc []byte,
	routes []httpapi.Route,
	calls map[string]clientCall,
	types map[string]reflect.Type,
) ([]byte, error) {
	head, rest, begins := bytes.Cut(doc, []byte(pathsBegin))
	_, tail, ends := bytes.Cut(rest, []byte(pathsEnd))
	var words struct {
		Paths map[string]map[string]schema `json:"paths"`
	}
	if err := json.Unmarshal(doc, &words); err != nil || !begins || !ends {
		return nil, fmt.Errorf("openapi.json has no paths before its components: %v", err)
	}
	methods := []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	routes = slices.SortedFunc(slices.Values(routes), func(a, b httpapi.Route) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), slices.Index(methods, a.Method)-slices.Index(methods, b.Method))
	})
	g := newSchemaWriter(types)
	g.out.Write(append(head, pathsBegin...))
	for i, r := range routes {
		switch {
		case i == 0:
			fmt.Fprintf(&g.out, "    %q: {\n", r.Path)
		case r.Path == routes[i-1].Path:
			g.out.WriteString(",\n")
		default:
			fmt.Fprintf(&g.out, "\n    },\n    %q: {\n", r.Path)
		}
		method := strings.ToLower(r.Method)
		g.operation(r, method, calls[r.Method+" "+r.Path], words.Paths[r.Path][method])
	}
	g.out.WriteString("\n    }" + pathsEnd)
	return append(g.out.Bytes(), tail...), nil
}

// operation writes one operation. words is the operation in the file now, nil if it is new.
func (g *schemaWriter) operation(r httpapi.Route, method string, call clientCall, words schema) {
	id := call.method.Name
	if r.Path == descriptionPath {
		id = "Description" // the client does not need it
	}
	fmt.Fprintf(&g.out, "      %q: {\n        \"operationId\": %q,\n", method, id)
	fmt.Fprintf(&g.out, "        \"tags\": %s,\n", compact(either(words["tags"], []string{"site"})))
	fmt.Fprintf(&g.out, "        \"summary\": %s", compact(either(words["summary"], "")))
	if p := parameters(r.Path, call.query, words); len(p) > 0 {
		fmt.Fprintf(&g.out, ",\n        \"parameters\": [\n          %s\n        ]", strings.Join(p, ",\n          "))
	}
	if call.body != "" {
		of := either(at(words, "requestBody", "content", call.body, "schema"), schema{"type": "object"})
		for typ := range call.method.Type.Ins() {
			if _, ok := g.names[typ]; ok {
				of = g.of(typ)
			}
		}
		body := schema{"required": true, "content": schema{call.body: schema{"schema": of}}}
		fmt.Fprintf(&g.out, ",\n        \"requestBody\": %s", compact(body))
	}
	code, answer := "204", schema{}
	if content := g.answer(call.method.Type); content != nil {
		code, answer["content"] = "200", content
	}
	answer["description"] = either(at(words, "responses", code, "description"), "")
	refusal := schema{
		"description": either(at(words, "responses", "default", "description"), "Refused, or failed."),
		"content":     schema{"application/json": schema{"schema": g.of(reflect.TypeFor[api.ErrorBody]())}},
	}
	fmt.Fprintf(&g.out, ",\n        \"responses\": {\n          %q: %s,\n          \"default\": %s\n        }",
		code, compact(answer), compact(refusal))
	if r.Path == descriptionPath {
		g.out.WriteString(",\n        \"security\": []")
	}
	g.out.WriteString("\n      }")
}

// parameters returns the parameters of an operation: those of the path, those in words, and others that the client
// sends.
func parameters(path string, sent []string, words schema) (out []string) {
	known := map[string]schema{}
	list, _ := words["parameters"].([]any)
	for _, p := range list {
		known[fmt.Sprint(at(p, "name"))] = p.(schema)
	}
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			p := schema{"name": name, "in": "path", "required": true, "schema": schema{"type": "string"}}
			addWords(p, known[name])
			out = append(out, compact(p))
		}
	}
	for _, name := range sent {
		if known[name] == nil {
			list = append(list, schema{"name": name, "in": "query", "description": "", "required": false,
				"schema": schema{"type": "string"}})
		}
	}
	for _, p := range list {
		if at(p, "in") == "query" {
			out = append(out, compact(p))
		}
	}
	return out
}

// answer returns the content of the answer that a method of the client returns, nil if it returns only an error.
func (g *schemaWriter) answer(method reflect.Type) schema {
	out := reflect.TypeFor[json.RawMessage]() // of the description
	if method != nil {
		out = method.Out(0)
	}
	media, of := "application/json", g.of(out)
	switch {
	case out == reflect.TypeFor[error]():
		return nil
	case out == reflect.TypeFor[json.RawMessage]():
		of = schema{"type": "object"}
	case out == reflect.TypeFor[[]byte](), out == reflect.TypeFor[io.ReadCloser]():
		media, of = "application/octet-stream", schema{"type": "string", "format": "binary"}
	case out.Kind() == reflect.Func: // iter.Seq2
		media, of = "text/event-stream", g.of(out.In(0).In(0))
	case out.Kind() == reflect.Slice: // the only field of what is sent, or one of a List
		for typ, name := range g.names {
			f := wireFields(typ)
			has := slices.ContainsFunc(f, func(f reflect.StructField) bool { return f.Type == out })
			if has && (len(f) == 1 || strings.HasSuffix(name, "List")) {
				of = g.of(typ)
			}
		}
	}
	return schema{media: schema{"schema": of}}
}

// at returns the value below these keys, nil if there is none.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(schema)
		v = m[key]
	}
	return v
}

func either(v, otherwise any) any {
	if v == nil {
		return otherwise
	}
	return v
}
