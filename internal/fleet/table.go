package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one entry of the settings table. Flags, API description, fleet files, diffs and displays are generated
// from the table, so that none of them names a setting. A new setting is a field of Settings and an entry of the table.
type Setting struct {
	Key      string // its name in JSON, in fleet files and in --inherit: "write_limit"
	Flag     string // its flag; for a list the flag of one item: "mount"
	FlagNone string // flag that empties a list; "": none
	Kind     Kind
	Values   []string // the only words that it accepts; none: any that its check accepts
	Default  string   // what an unset value means, for people
	Effect   Effect
	Usage    string // for help and the API description

	// the flag accepts a file that has one item on each line
	Files bool

	slot   func(*Settings) slot
	with   string                              // key of the setting that this one belongs to; "": none
	check  func(Settings) error                // returns why the value is invalid; nil: every value is valid
	actual func(l Layers, all Settings) string // default for one node, if it depends on other settings; nil: Default
	note   func(Settings) string               // warning about the value; nil: none
	brief  func(items []string) string         // the value in one line; nil: its items
}

// Kind is the form of a setting's value.
type Kind string

// The kinds.
const (
	KindText     Kind = "text"
	KindBool     Kind = "bool"     // true or false
	KindSize     Kind = "size"     // bytes: 64MB
	KindDuration Kind = "duration" // 10m, or never
	KindList     Kind = "list"     // of texts
)

// Effect says when a changed setting takes effect.
type Effect int

// The effects.
const (
	AtBoot   Effect = iota // at the next boot of a node
	AtOnce                 // also on running nodes
	ByServer               // in the server: nodes are not told
)

// byDefault stands for the default value in flags and files.
const byDefault = "default"

// slot gives access to the value of one setting in some Settings.
type slot interface {
	isSet() bool
	isDefault() bool // not set, or set to the default
	clear()
	copyFrom(other slot)
	items() []string // as flags and files write it: one word, or the items of a list; none for the default
	read(items []string) error
}

// cell is a slot whose value is a T.
type cell[T any] struct {
	at    **T
	words func(T) []string
	parse func(items []string) (T, error)
}

func (c cell[T]) isSet() bool         { return *c.at != nil }
func (c cell[T]) isDefault() bool     { return len(c.items()) == 0 }
func (c cell[T]) clear()              { *c.at = nil }
func (c cell[T]) copyFrom(other slot) { *c.at = *other.(cell[T]).at }

func (c cell[T]) items() []string {
	if *c.at == nil {
		return nil
	}
	return c.words(**c.at)
}

func (c cell[T]) read(items []string) error {
	v, err := c.parse(items)
	if err != nil {
		return err
	}
	*c.at = &v
	return nil
}

// wordSlot returns the slot of a setting that is one word. The word "default", and no word, mean the zero value.
func wordSlot[T comparable](at **T, text func(T) string, parse func(string) (T, error)) slot {
	words := func(v T) []string {
		if v == *new(T) {
			return nil
		}
		return []string{text(v)}
	}
	read := func(items []string) (v T, err error) {
		if len(items) > 1 {
			return v, fmt.Errorf("%d values, want one", len(items))
		}
		if word := strings.Join(items, ""); word != "" && word != byDefault {
			v, err = parse(word)
		}
		return v, err
	}
	return cell[T]{at, words, read}
}

func textSlot[T ~string](at **T) slot {
	return wordSlot(at, func(v T) string { return string(v) }, func(s string) (T, error) { return T(s), nil })
}

func boolSlot(at **bool) slot { return wordSlot(at, strconv.FormatBool, ParseBool) }

func sizeSlot(at **int64) slot { return wordSlot(at, SizeText, ParseSize) }

func durationSlot(at **time.Duration) slot { return wordSlot(at, rebootText, parseReboot) }

func listSlot(at **[]string) slot {
	same := func(items []string) []string { return items }
	read := func(items []string) ([]string, error) { return append([]string{}, items...), nil }
	return cell[[]string]{at, same, read}
}

// FindSetting returns the entry of the table with this key.
func FindSetting(key string) (Setting, bool) {
	i := slices.IndexFunc(settingTable, func(x Setting) bool { return x.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return settingTable[i], true
}

// Label returns the name of the setting for people: "write limit".
func (x Setting) Label() string { return strings.ReplaceAll(x.Key, "_", " ") }

// IsSet reports whether s sets the setting.
func (x Setting) IsSet(s Settings) bool { return x.slot(&s).isSet() }

// Items returns the value as flags and fleet files write it: one word, or the items of a list. The default has no
// items.
func (x Setting) Items(s Settings) []string { return x.slot(&s).items() }

// Text returns the value in one line, or the default. Every display shows a setting this way.
func (x Setting) Text(s Settings) string {
	if t := x.text(s); t != "" {
		return t
	}
	return x.Default
}

// text is Text without the default.
func (x Setting) text(s Settings) string {
	items := x.Items(s)
	if len(items) > 0 && x.brief != nil {
		return x.brief(items)
	}
	return strings.Join(items, ", ")
}

// Note returns a warning about the value, "" for none.
func (x Setting) Note(s Settings) string {
	if x.note == nil {
		return ""
	}
	return x.note(s)
}

// Set parses the words of a flag or a file. It checks only their form; Validate checks the value. It also accepts the
// text that displays show for the default.
func (x Setting) Set(s *Settings, words ...string) error {
	err := x.slot(s).read(words)
	if len(words) == 1 && words[0] == x.Default && (err != nil || x.validate(*s) != nil) {
		err = x.slot(s).read(nil)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", x.Label(), err)
	}
	return nil
}

// validate returns why the value is invalid, nil if it is valid.
func (x Setting) validate(s Settings) error {
	for _, word := range x.Items(s) {
		if len(x.Values) > 0 && !slices.Contains(x.Values, word) {
			last := len(x.Values) - 1
			return fmt.Errorf(
				"%s %q: want %s or %s",
				x.Label(),
				word,
				strings.Join(x.Values[:last], ", "),
				x.Values[last],
			)
		}
	}
	if x.check == nil {
		return nil
	}
	return x.check(s)
}

// ParseBool parses a word that means true or false.
func ParseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "allow":
		return true, nil
	case "false", "no", "deny":
		return false, nil
	}
	return false, fmt.Errorf("%q: want true or false", s)
}

// never is the text for a negative duration.
const never = "never"

// parseReboot parses the time after which a stuck boot reboots: 10m, never. A negative duration means never.
func parseReboot(s string) (time.Duration, error) {
	if s == never {
		return -1, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is no time: want 10m, 90s, never or default", s)
	}
	return d, nil
}

// rebootText returns the time after which a stuck boot reboots, as files have it: a duration, "never", or "" for the
// default.
func rebootText(d time.Duration) string {
	switch {
	case d < 0:
		return never
	case d == 0:
		return ""
	}
	return d.String()
}
