package fleetfile

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"pando/internal/fleet"
)

// config reads config files, which are grouped by scope and then by path.
func (f *fileReader) config(n *yaml.Node) {
	f.entries(n, "config", func(key, files *yaml.Node) {
		scope, err := fleet.ParseScope(key.Value)
		if err != nil {
			f.add(key.Line, "", "%v", err)
			return
		}
		f.entries(files, "config files of "+key.Value, func(path, n *yaml.Node) {
			c := fleet.ConfigFile{For: scope, Path: path.Value}
			item := "config file " + ConfigName(c)
			f.out.Lines[item] = path.Line
			before := len(f.list)
			f.configFile(item, &c, n)
			if err := c.Validate(); err != nil && len(f.list) == before {
				f.add(path.Line, "", "%v", err)
			}
			f.out.Config = append(f.out.Config, c)
		})
	})
}

// ConfigName names a config file among others: "/etc/motd of group:lab".
func ConfigName(c fleet.ConfigFile) string { return c.Path + " of " + c.For.String() }

func (f *fileReader) configFile(item string, c *fleet.ConfigFile, n *yaml.Node) {
	from := ""
	given := f.fields(n, item, map[string]func(*yaml.Node){
		"content":  func(n *yaml.Node) { c.Content = f.content(n) },
		"from":     func(n *yaml.Node) { from = f.text(n) },
		"verbatim": func(n *yaml.Node) { c.Verbatim = value(&f.reader, n, fleet.ParseBool) },
		"mode":     func(n *yaml.Node) { c.Mode = value(&f.reader, n, parseMode) },
		"owner":    func(n *yaml.Node) { c.Owner = f.text(n) },
		"run":      func(n *yaml.Node) { c.Run = f.text(n) },
	})
	switch {
	case from != "" && c.Content != nil:
		f.add(n.Line, "", "%s: content and from are the same: give one", item)
	case from != "":
		if f.out.From == nil {
			f.out.From = map[int]string{}
		}
		f.out.From[len(f.out.Config)] = from
	case c.Content == nil && len(f.list) == 0:
		f.add(n.Line, "", "%s: it has no content (keys given: %s)", item, strings.Join(given, ", "))
	}
}

// content reads text, or bytes that the YAML file has in base64.
func (f *fileReader) content(n *yaml.Node) []byte {
	text := f.text(n)
	if f.real(n).Tag != "!!binary" {
		return []byte(text)
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		f.add(n.Line, "", "content: %v", err)
	}
	return b
}

func parseMode(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o7777 {
		return 0, fmt.Errorf("%q are no permission bits: want octal digits such as 0640", s)
	}
	return uint32(n), nil
}

// configTexts converts config files to their form in a fleet file: by scope, then by path.
func configTexts(files []fleet.ConfigFile) map[string]map[string]configText {
	out := map[string]map[string]configText{}
	for _, c := range files {
		scope := c.For.String()
		if out[scope] == nil {
			out[scope] = map[string]configText{}
		}
		t := configText{c.Verbatim, "", c.Owner, c.Run, string(c.Content)}
		if c.Mode != 0 {
			t.Mode = fmt.Sprintf("%04o", c.Mode)
		}
		out[scope][c.Path] = t
	}
	return out
}
