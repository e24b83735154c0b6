package fleetfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pando/internal/api"
	"pando/internal/fleet"
)

// The columns of a table, and the fields of a node that they declare.
var columns = map[string]string{
	"name":        "name",
	"mac":         "macs",
	"serial":      "serial",
	"group":       "group",
	"labels":      "labels",
	"address":     "address",
	"image":       "image",
	"kernel_args": "kernel_args",
}

// labelColumn is the prefix of the name of a column with the values of one label.
const labelColumn = "label:"

// ParseTable parses a list of nodes: CSV whose first line names the columns, or a YAML list. The declaration of each
// node has only the fields that the table gives.
func ParseTable(name string, raw []byte) (File, error) {
	p := problems{file: name}
	text := p.textOf(raw)
	if len(p.list) > 0 {
		return File{}, p.err()
	}
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		return parseList(name, text)
	}
	t := tableReader{problems: problems{file: name}, out: File{Lines: map[string]int{}}}
	if !t.hostList(string(text)) {
		t.read(text)
	}
	t.twice()
	return t.out, t.err()
}

// parseList reads a YAML list of nodes, each with its name.
func parseList(name string, text []byte) (File, error) {
	f := fileReader{reader{problems: problems{file: name}}, File{Lines: map[string]int{}}}
	top := f.parse(text)
	if top == nil {
		return f.out, f.err()
	}
	if top.Kind != yaml.SequenceNode {
		f.add(
			top.Line,
			"",
			"want a list of nodes, such as `- {name: pc001, mac: 52:54:00:12:34:56}`; a fleet file is for `pando "+
				"apply`",
		)
		return f.out, f.err()
	}
	t := tableReader{problems: problems{file: name}, out: f.out}
	for _, n := range top.Content {
		if f.full() {
			break
		}
		d, given := f.nodeOf("", n)
		for _, key := range given {
			if key == "mac" {
				key = "macs"
			}
			d.Only = append(d.Only, key)
		}
		d.Name, d.Group = t.lowered(n.Line, d.Name), t.lowered(n.Line, d.Group)
		t.keep(t.row(n.Line, d))
	}
	t.list = append(f.list, t.list...)
	t.twice()
	return t.out, t.err()
}

type tableReader struct {
	problems
	out   File
	lines []int // line numbers of out.Nodes
}

// read parses CSV. The separator is a comma, semicolon or tab, as in the first line.
func (t *tableReader) read(text []byte) {
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	named := excelSeparator(head)
	if named != 0 {
		text = append([]byte("\n"), rest...) // an empty line, so that lines keep their numbers
		head, _, _ = bytes.Cut(rest, []byte("\n"))
	}
	r := csv.NewReader(bytes.NewReader(text))
	for _, c := range []rune{';', '\t'} {
		if bytes.ContainsRune(head, c) && !bytes.ContainsRune(head, ',') {
			r.Comma = c
		}
	}
	if named != 0 {
		r.Comma = named
	}
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', r.Comma != '\t', -1
	names, err := r.Read()
	if err != nil {
		t.add(1, "", "the first line names the columns: name,mac,serial,group,labels,address")
		return
	}
	line, _ := r.FieldPos(0)
	if names = t.head(line, names); len(t.list) > 0 {
		return
	}
	for !t.full() {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		var broken *csv.ParseError
		if errors.As(err, &broken) {
			t.add(broken.Line, fmt.Sprint(broken.Column), "%v", broken.Err)
			return
		}
		line, _ := r.FieldPos(0)
		if strings.TrimSpace(strings.Join(cells, "")) == "" {
			continue // an empty line of a spreadsheet
		}
		if len(cells) != len(names) {
			t.add(line, "", "it has %d cells, and there are %d columns", len(cells), len(names))
			continue
		}
		t.cells(line, names, cells)
	}
}

// excelSeparator is the separator that Excel's first line "sep=;" names, zero if the line is another.
func excelSeparator(line []byte) rune {
	sep, ok := strings.CutPrefix(strings.ToLower(strings.Trim(string(line), "\" \r")), "sep=")
	if sep = strings.Trim(sep, "\""); ok && len(sep) == 1 && strings.Contains(",;\t|", sep) {
		return rune(sep[0])
	}
	return 0
}

// head checks the names of the columns.
func (t *tableReader) head(line int, names []string) []string {
	known := append([]string{labelColumn + "KEY"}, slices.Sorted(func(yield func(string) bool) {
		for k := range columns {
			if !yield(k) {
				return
			}
		}
	})...)
	for i, n := range names {
		if n = strings.TrimSpace(n); !strings.HasPrefix(n, labelColumn) {
			n = strings.ReplaceAll(strings.ToLower(n), " ", "_")
		}
		names[i] = n
		key, isLabel := strings.CutPrefix(n, labelColumn)
		switch {
		case isLabel:
			if err := fleet.ValidLabel(key, ""); err != nil {
				t.add(line, n, "%v", err)
			}
		case columns[n] == "":
			t.add(line, n, "unknown column; there are %s", strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], n) {
			t.add(line, n, "there are two columns of this name")
		}
	}
	if !slices.Contains(names, "name") {
		t.add(line, "", "there is no column name")
	}
	return names
}

// cells turns the cells of one line into a node.
func (t *tableReader) cells(line int, names, cells []string) {
	d := api.NodeDeclare{NodeCreate: api.NodeCreate{}}
	good := true
	for i, name := range names {
		text := strings.TrimSpace(cells[i])
		if name == "name" || name == "group" {
			text = t.lowered(line, text)
		}
		if err := cell(&d, name, text); err != nil {
			t.add(line, name, "%v", err)
			good = false
		}
		only := columns[name]
		if only == "" {
			only = name // one label
		}
		if name != "group" || d.Group != "" { // every node is in a group: an empty cell leaves it there
			d.Only = append(d.Only, only)
		}
	}
	if good {
		t.keep(t.row(line, d))
	}
}

// lowered returns a name in lower case, as node and group names are. A note about it is given once.
func (t *tableReader) lowered(line int, name string) string {
	lower := strings.ToLower(name)
	if lower != name && t.out.Note == "" {
		t.out.Note = fmt.Sprintf("names are written in lower case: %s in line %d is %s", name, line, lower)
	}
	return lower
}

// cell stores one cell in a node declaration.
func cell(d *api.NodeDeclare, column, text string) (err error) {
	if key, ok := strings.CutPrefix(column, labelColumn); ok {
		return label(d, key, text)
	}
	switch column {
	case "name":
		d.Name, err = text, fleet.ValidNodeName(text)
	case "mac":
		for _, s := range macWords(text) {
			m, e := parseMAC(s)
			d.MACs, err = append(d.MACs, m), errors.Join(err, e)
		}
	case "serial":
		d.Serial = text
	case "group":
		if d.Group = text; text != "" {
			err = fleet.ValidName("group", text)
		}
	case "address":
		if text != "" {
			d.Address, err = parseAddress(text)
		}
	case "image":
		d.Version = fleet.Ref(text)
	case "kernel_args":
		d.KernelArgs = strings.Fields(text)
	case "labels":
		for _, s := range words(text) {
			key, value, ok := strings.Cut(s, "=")
			if !ok {
				return fmt.Errorf("label %q is not KEY=VALUE; several stand with a blank or ; between them", s)
			}
			err = errors.Join(err, label(d, key, value))
		}
	}
	return err
}

func label(d *api.NodeDeclare, key, value string) error {
	if value == "" {
		return nil
	}
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	d.Labels[key] = value
	return fleet.ValidLabel(key, value)
}

// macWords splits a cell into MACs, which may have blanks between their bytes.
func macWords(text string) (out []string) {
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == ',' }) {
		if part = strings.Join(strings.Fields(part), " "); isMAC(part) {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

// words splits a cell at blanks, semicolons and commas.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ';' || r == ',' || r == '\t' })
}

// row adds a node.
func (t *tableReader) row(line int, d api.NodeDeclare) error {
	if d.Name == "" {
		return &Error{t.file, line, "name", "the node has no name"}
	}
	t.out.Nodes, t.lines = append(t.out.Nodes, d), append(t.lines, line)
	t.out.Lines["node "+d.Name] = line
	if err := valid(d); err != nil {
		return &Error{t.file, line, "", err.Error()}
	}
	return nil
}

// twice reports names, MACs, serial numbers and addresses that two lines have.
func (t *tableReader) twice() {
	seen := map[string]int{}
	for i, d := range t.out.Nodes {
		keys := [][2]string{{"name", d.Name}}
		for _, m := range d.MACs {
			keys = append(keys, [2]string{"mac", m.String()})
		}
		for _, k := range append(keys, [2]string{"serial", d.Serial}, [2]string{"address", d.Address}) {
			if k[1] == "" {
				continue
			}
			if at := seen[k[0]+" "+k[1]]; at > 0 && !t.full() {
				t.add(t.lines[i], k[0], "%s stands in line %d already", k[1], at)
			}
			seen[k[0]+" "+k[1]] = t.lines[i]
		}
	}
}
