package settingflags

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/exitcode"
	"pando/internal/fleet"
)

// Flags are the flags of the settings table, for a group or a node.
type Flags struct {
	set   fleet.Settings // values of the given flags, except lists
	lists []*settingFlag
}

// settingFlag is the flag of one setting.
type settingFlag struct {
	setting fleet.Setting
	set     *fleet.Settings
	items   []string // of a list
	given   bool     // of a list: a flag was given
}

// Set parses a value, or adds an item to a list. An empty item empties the list.
func (f *settingFlag) Set(word string) error {
	if f.setting.Kind != fleet.KindList {
		return f.setting.Set(f.set, word)
	}
	if f.given = true; word != "" {
		f.items = append(f.items, word)
	}
	return nil
}

// String returns "": help shows the default instead.
func (f *settingFlag) String() string { return "" }

// Type returns the name of the kind for help and documentation.
func (f *settingFlag) Type() string {
	return map[fleet.Kind]string{
		fleet.KindText:     "string",
		fleet.KindBool:     "bool",
		fleet.KindSize:     "SIZE",
		fleet.KindDuration: "duration",
		fleet.KindList:     "stringArray",
	}[f.setting.Kind]
}

// noneFlag is a flag that empties a list.
type noneFlag struct{ *settingFlag }

func (f noneFlag) Set(string) error { return f.settingFlag.Set("") }
func (noneFlag) Type() string       { return "bool" }

// Add gives a command the flags of all settings.
func (f *Flags) Add(c *cobra.Command) {
	for _, x := range fleet.SettingTable() {
		v := &settingFlag{setting: x, set: &f.set}
		usage := x.Usage
		if x.Kind == fleet.KindList {
			f.lists = append(f.lists, v)
			usage += "; one empty: none"
		}
		flag := c.Flags().VarPF(v, x.Flag, "", usage)
		switch x.Kind {
		case fleet.KindText:
			flag.DefValue = x.Default
		case fleet.KindBool:
			flag.NoOptDefVal = "true"
		}
		if x.FlagNone != "" {
			c.Flags().VarPF(noneFlag{v}, x.FlagNone, "", "no "+x.Label()).NoOptDefVal = "true"
			c.MarkFlagsMutuallyExclusive(x.Flag, x.FlagNone)
		}
	}
}

// Settings returns the settings whose flags were given.
func (f *Flags) Settings() (fleet.Settings, error) {
	out := f.set
	for _, v := range f.lists {
		if !v.given {
			continue
		}
		items, err := v.items, error(nil)
		if v.setting.Files {
			if items, err = readItems(v.setting, items); err != nil {
				return out, err
			}
		}
		if err := v.setting.Set(&out, items...); err != nil {
			return out, exitcode.AsUsage(err)
		}
	}
	return out, nil
}

// readItems replaces items that are names of files by the lines of these files. An item with a blank in it that is no
// file is kept.
func readItems(x fleet.Setting, items []string) ([]string, error) {
	out := []string{}
	for _, item := range items {
		b, err := os.ReadFile(item)
		if err != nil && strings.Contains(item, " ") {
			out = append(out, item)
			continue
		}
		if err != nil {
			return nil, exitcode.WithHint(exitcode.Usagef("--%s: %w", x.Flag, err), "give "+x.Usage)
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				out = append(out, line)
			}
		}
	}
	return out, nil
}

// Pairs returns the settings for `group show`: each item of a list on its own line, and notes.
func Pairs(s fleet.Settings) []string {
	var out, notes []string
	for _, x := range fleet.SettingTable() {
		text := x.Text(s)
		if items := x.Items(s); x.Kind == fleet.KindList && len(items) > 0 {
			text = strings.Join(items, "\n\t")
		}
		out = append(out, x.Label(), text)
		if note := x.Note(s); note != "" {
			notes = append(notes, "note", note)
		}
	}
	return append(out, notes...)
}

// ValueNote returns a note about a value of a setting, "" for none.
func ValueNote(v fleet.Value) string {
	x, ok := fleet.FindSetting(v.Setting)
	var s fleet.Settings
	if !ok || x.Set(&s, v.Value) != nil {
		return ""
	}
	return x.Note(s)
}
