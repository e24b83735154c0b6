package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fold writes names as a short node set: pc[001-003,007],gate. It is the inverse of ParseSet. The names come in natural
// order, each once.
func Fold(names []string) string {
	names = slices.Clone(names)
	slices.SortFunc(names, CompareNames)
	var out []string
	var run foldRun
	for _, name := range slices.Compact(names) {
		before, number, after := lastNumber(name)
		if number == "" || len(number) > 9 {
			out, run = append(out, run.text()...), foldRun{}
			out = append(out, name)
			continue
		}
		if before != run.before || after != run.after {
			out, run = append(out, run.text()...), foldRun{before: before, after: after}
		}
		run.add(number)
	}
	return strings.Join(append(out, run.text()...), ",")
}

// lastNumber cuts a name around its last digits.
func lastNumber(name string) (before, number, after string) {
	end := len(name)
	for end > 0 && digits(name[end-1:end]) == 0 {
		end--
	}
	begin := end
	for begin > 0 && digits(name[begin-1:begin]) == 1 {
		begin--
	}
	return name[:begin], name[begin:end], name[end:]
}

// foldRun collects names that differ in one number.
type foldRun struct {
	before, after string
	ranges        [][2]string // from and to
}

func (r *foldRun) add(number string) {
	// Numbers with and without leading zeros are mixed, so the range that number continues need not be the last one.
	for i := len(r.ranges) - 1; i >= max(0, len(r.ranges)-4); i-- {
		if follows(r.ranges[i][0], r.ranges[i][1], number) {
			r.ranges[i][1] = number
			return
		}
	}
	r.ranges = append(r.ranges, [2]string{number, number})
}

// follows reports whether next comes after last in a range that begins with first; its numbers have the width of first.
func follows(first, last, next string) bool {
	n, err := strconv.Atoi(last)
	return err == nil && next == fmt.Sprintf("%0*d", len(first), n+1) && n < maxNumber
}

func (r *foldRun) text() []string {
	if len(r.ranges) == 0 {
		return nil
	}
	if len(r.ranges) == 1 && r.ranges[0][0] == r.ranges[0][1] {
		return []string{r.before + r.ranges[0][0] + r.after}
	}
	parts := make([]string, len(r.ranges))
	for i, x := range r.ranges {
		if parts[i] = x[0]; x[0] != x[1] {
			parts[i] += "-" + x[1]
		}
	}
	return []string{r.before + "[" + strings.Join(parts, ",") + "]" + r.after}
}
