package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"pando/internal/trace"
)

// Table prints rows in columns. An empty cell is shown as a dash, so that scripts can split columns.
type Table struct{ w *tabwriter.Writer }

// NewTable begins a table with the heads of its columns.
func NewTable(w io.Writer, head ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.Row(head...)
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		if cells[i] = OneLine(c); c == "" {
			cells[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// Flush prints the table.
func (t *Table) Flush() { t.w.Flush() }

// Fields prints "name:  value" lines. It omits empty values.
func Fields(w io.Writer, pairs ...string) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			Fprintf(tw, "%s:\t%s\n", pairs[i], pairs[i+1])
		}
	}
	tw.Flush()
}

// JSON writes v as indented JSON.
func JSON(w io.Writer, v any) error {
	return writeJSON(w, v, "  ")
}

// Size formats a number of bytes with three digits: 512 B, 61.9 MB. Units are powers of ten.
func Size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n), "kMGTPE"
	i := -1
	for f >= 999.5 && i < len(units)-1 {
		f /= 1000
		i++
	}
	if f < 99.95 {
		return fmt.Sprintf("%.1f %cB", f, units[i])
	}
	return fmt.Sprintf("%.0f %cB", f, units[i])
}

// Span formats a duration: 0.042s, 12.3s, 3m05s, 2h04m, 3d02h.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Second:
		return fmt.Sprintf("%.3fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Ago formats how long before now t was; "" for the zero time.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Span(max(0, now.Sub(t))) + " ago"
}

// Time formats a local time to the second; "" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// BySource formats bytes by source, in a fixed order: "kernel+initrd 14.2 MB, server 33.1 MB".
func BySource(m map[string]int64) string { return bySource(m, "kernel+initrd", Size, ", ") }

// BySourceShort formats bytes by source for narrow columns: "initrd 14.2M server 33.1M".
func BySourceShort(m map[string]int64) string {
	short := func(n int64) string { return strings.TrimSuffix(strings.ReplaceAll(Size(n), " ", ""), "B") }
	return bySource(m, "initrd", short, " ")
}

func bySource(m map[string]int64, k string, text func(int64) string, between string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		n := m[name]
		if n == 0 {
			continue
		}
		switch name {
		case trace.SourceK:
			name = k
		case trace.SourceNeighbour:
			name = k + " from nodes"
		}
		parts = append(parts, name+" "+text(n))
	}
	return strings.Join(parts, between)
}

// Join returns items separated by blanks.
func Join[T fmt.Stringer](items []T) string {
	s := make([]string, len(items))
	for i, v := range items {
		s[i] = v.String()
	}
	return strings.Join(s, " ")
}

// Labels returns KEY=VALUE pairs, ordered by key.
func Labels(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, " ")
}

// Count formats a number; "" for 0.
func Count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// SizeOf is Size, but "" for 0.
func SizeOf(n int64) string {
	if n == 0 {
		return ""
	}
	return Size(n)
}

// Used returns "12.0 MB of 1.0 GB (1 %)"; "" if the total is unknown.
func Used(n, total int64) string {
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%s of %s (%d %%)", Size(n), Size(total), n*100/total)
}

// JSONLine writes v as one line of JSON.
func JSONLine(w io.Writer, v any) error { return writeJSON(w, v, "") }

func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	err := e.Encode(v)
	if err == nil {
		_, err = w.Write(PlainJSON(b.Bytes()))
	}
	return err
}

// Few joins names; of more than three names it shows two and a count.
func Few(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:2], ", ") + " and " + strconv.Itoa(len(names)-2) + " more"
	}
	return strings.Join(names, ", ")
}

// Counted returns each line once, with the number of its occurrences.
func Counted(lines []string) (out []string) {
	count := map[string]int{}
	for _, l := range lines {
		if count[l]++; count[l] == 1 {
			out = append(out, l)
		}
	}
	for i, l := range out {
		if count[l] > 1 {
			out[i] = fmt.Sprintf("%s (%d times)", l, count[l])
		}
	}
	return out
}
