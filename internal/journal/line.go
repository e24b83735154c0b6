package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Line is one entry of a journal, for people.
type Line struct {
	Time     time.Time
	Unit     string // the unit that logged it or that it is about; "" for the kernel and others
	Name     string // the program's own name for itself; "kernel"
	PID      int    // 0: unknown
	Priority int    // 0 (emergency) to 7 (debug); 6 if the entry has none
	Text     string
}

// maxText limits the text of a line, in bytes.
const maxText = 16 << 10

// shownFields are the fields that make a Line.
var shownFields = []string{
	"MESSAGE",
	"PRIORITY",
	"_SYSTEMD_UNIT",
	"UNIT",
	"SYSLOG_IDENTIFIER",
	"_COMM",
	"_PID",
	"SYSLOG_PID",
}

// parseLine parses an entry in journalctl's JSON output.
func parseLine(text []byte) (Line, error) {
	var fields map[string]value
	if err := json.Unmarshal(text, &fields); err != nil {
		return Line{}, fmt.Errorf("read an entry: %w", err)
	}
	first := func(names ...string) string {
		for _, n := range names {
			if v := string(fields[n]); v != "" {
				return v
			}
		}
		return ""
	}
	us, err := strconv.ParseInt(first("__REALTIME_TIMESTAMP"), 10, 64)
	if err != nil {
		return Line{}, fmt.Errorf("read an entry: time: %w", err)
	}
	l := Line{
		Time:     time.UnixMicro(us).UTC(),
		Unit:     clip(first("_SYSTEMD_UNIT"), 256),
		Name:     clip(first("SYSLOG_IDENTIFIER", "_COMM"), 256),
		Priority: 6,
		Text:     clip(strings.TrimRight(first("MESSAGE"), "\n"), maxText),
	}
	if about := first("UNIT"); about != "" && (l.Unit == "" || l.Unit == "init.scope") {
		l.Unit = clip(about, 256) // systemd itself logs about the unit
	}
	l.PID, _ = strconv.Atoi(first("_PID", "SYSLOG_PID"))
	if p, err := strconv.Atoi(first("PRIORITY")); err == nil && p >= 0 && p <= 7 {
		l.Priority = p
	}
	return l, nil
}

// value is the value of a field. In JSON it is a string; a list of bytes if it is not UTF-8; or a list of values, of
// which the first counts.
type value string

// UnmarshalJSON decodes a value in journalctl's JSON output.
func (v *value) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*v = value(text)
		return nil
	}
	var raw []uint8
	var numbers []int
	if json.Unmarshal(b, &numbers) == nil {
		for _, n := range numbers {
			raw = append(raw, byte(n))
		}
		*v = value(strings.ToValidUTF8(string(raw), "\uFFFD"))
		return nil
	}
	var several []value
	if err := json.Unmarshal(b, &several); err != nil {
		return err
	}
	if len(several) > 0 {
		*v = several[0]
	}
	return nil
}

// clip cuts text to at most `most` bytes, between characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
