package server

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

// TestDescriptionOfTypes: the schemas of openapi.json match the types, in order, with the descriptions that are in the
// file; settings have those of the table. `go test ./internal/server -run TestDescription -update` updates the file.
func TestDescriptionOfTypes(t *testing.T) {
	want, err := withSchemas(description, describedTypes())
	if err != nil {
		t.Fatal(err)
	}
	updateDescription(t, want)
}

// updateDescription compares openapi.json with what it has to be, or rewrites it.
func updateDescription(t *testing.T, want []byte) {
	t.Helper()
	switch {
	case bytes.Equal(want, description):
	case *update:
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		description = want
	default:
		t.Error("openapi.json is not what the code says; run go test ./internal/server -run TestDescription -update")
	}
}

// schema is a JSON object of the description.
type schema = map[string]any

// The schemas are the last part of openapi.json.
const (
	schemasBegin = "    \"schemas\": {\n"
	schemasEnd   = "\n    }\n  }\n}\n"
)

// withSchemas returns a description with the schemas of these types.
func withSchemas(doc []byte, types map[string]reflect.Type) ([]byte, error) {
	head, _, ok := bytes.Cut(doc, []byte(schemasBegin))
	if !ok {
		return nil, fmt.Errorf("openapi.json has no line %q", schemasBegin)
	}
	var words struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(doc, &words); err != nil {
		return nil, err
	}
	g := newSchemaWriter(types)
	g.out.Write(head)
	g.out.WriteString(schemasBegin)
	for i, name := range slices.Sorted(maps.Keys(types)) {
		if i > 0 {
			g.out.WriteString(",\n")
		}
		g.write(name, types[name], words.Components.Schemas[name])
	}
	g.out.WriteString(schemasEnd)
	return g.out.Bytes(), nil
}

type schemaWriter struct {
	names map[reflect.Type]string
	out   bytes.Buffer
}

func newSchemaWriter(types map[string]reflect.Type) *schemaWriter {
	g := &schemaWriter{names: map[reflect.Type]string{}}
	for name, typ := range types {
		g.names[typ] = name
	}
	return g
}

// write writes one schema. words is the schema in the file now.
func (g *schemaWriter) write(name string, typ reflect.Type, words schema) {
	fmt.Fprintf(&g.out, "      %q: {\n        \"type\": \"object\",\n", name)
	if d, ok := words["description"]; ok {
		fmt.Fprintf(&g.out, "        \"description\": %s,\n", compact(d))
	}
	g.out.WriteString("        \"properties\": {")
	known, _ := words["properties"].(schema)
	for i, f := range wireFields(typ) {
		if i > 0 {
			g.out.WriteString(",")
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		was, _ := known[name].(schema)
		fmt.Fprintf(&g.out, "\n          %q: %s", name, compact(g.property(f, name, was)))
	}
	g.out.WriteString("\n        }")
	if r, ok := words["required"]; ok {
		fmt.Fprintf(&g.out, ",\n        \"required\": %s", compact(r))
	}
	g.out.WriteString("\n      }")
}

// property returns the schema of a field, with its known description.
func (g *schemaWriter) property(f reflect.StructField, name string, words schema) schema {
	out := g.of(f.Type)
	addWords(out, words)
	if x, ok := fleet.FindSetting(name); ok && isSetting(f) {
		out["description"] = x.Usage
		if len(x.Values) > 0 {
			out["enum"] = x.Values
		}
	}
	return out
}

// isSetting reports whether a field is one of the settings table.
func isSetting(f reflect.StructField) bool {
	for _, typ := range []reflect.Type{reflect.TypeFor[fleet.Settings](), reflect.TypeFor[fleet.Keeping]()} {
		if s, ok := typ.FieldByName(f.Name); ok && s.Type == f.Type && s.Tag == f.Tag {
			return true
		}
	}
	return false
}

// addWords copies what a type does not say: descriptions, allowed values and patterns, also of items.
func addWords(to, from schema) {
	for _, key := range []string{"description", "enum", "pattern", "default"} {
		if v, ok := from[key]; ok && to["$ref"] == nil {
			to[key] = v
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		inner, ok := to[key].(schema)
		if words, also := from[key].(schema); ok && also {
			addWords(inner, words)
		}
	}
}

// of returns the schema of a type.
func (g *schemaWriter) of(typ reflect.Type) schema {
	if typ.Kind() == reflect.Pointer {
		return g.of(typ.Elem())
	}
	switch typ {
	case reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case reflect.TypeFor[fleet.MAC]():
		return schema{"type": "string", "format": "mac"}
	case reflect.TypeFor[netip.Addr]():
		return schema{"type": "string", "format": "ip"}
	case reflect.TypeFor[netip.Prefix]():
		return schema{"type": "string", "format": "cidr"}
	case reflect.TypeFor[json.RawMessage]():
		return schema{} // any JSON
	case reflect.TypeFor[[]byte]():
		return schema{"type": "string", "format": "byte"}
	}
	if name, ok := g.names[typ]; ok {
		return schema{"$ref": "#/components/schemas/" + name}
	}
	if typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return schema{"type": "string"}
	}
	switch typ.Kind() {
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64, reflect.Float32:
		return schema{"type": "number"}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Slice, reflect.Array:
		return schema{"type": "array", "items": g.of(typ.Elem())}
	case reflect.Map:
		values := g.of(typ.Elem())
		if typ.Elem().Kind() == reflect.Pointer {
			values["nullable"] = true
		}
		return schema{"type": "object", "additionalProperties": values}
	case reflect.Struct, reflect.Interface:
		return schema{"type": "object"}
	}
	return schema{"type": "integer", "format": "int64"}
}

// wireFields returns the fields of a type in JSON, with those of embedded structs in place.
func wireFields(t reflect.Type) []reflect.StructField {
	var out []reflect.StructField
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			out = append(out, wireFields(f.Type)...)
		default:
			out = append(out, f)
		}
	}
	return out
}

// keyOrder is the order of keys in a schema. Other keys follow.
var keyOrder = []string{
	"name",
	"in",
	"required",
	"type",
	"format",
	"nullable",
	"$ref",
	"items",
	"additionalProperties",
	"enum",
	"pattern",
	"default",
	"description",
}

func keyPlace(key string) int {
	if i := slices.Index(keyOrder, key); i >= 0 {
		return i
	}
	return len(keyOrder)
}

// compact returns a value as openapi.json has it in one line.
func compact(v any) string {
	switch v := v.(type) {
	case schema:
		var parts []string
		keys := slices.Sorted(maps.Keys(v))
		slices.SortStableFunc(keys, func(a, b string) int { return keyPlace(a) - keyPlace(b) })
		for _, key := range keys {
			parts = append(parts, fmt.Sprintf("%q: %s", key, compact(v[key])))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = compact(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []string:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = compact(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // strings and numbers always encode
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
