package updates

import (
	"fmt"
	"slices"

	"pando/internal/bench"
)

// table shows what each way had to write.
func (r *updateResult) table() string {
	head := bench.Row{
		"what",
		"first version, MB",
		"all at once, MB",
		"of the first",
		fmt.Sprintf("%d daily versions, MB", len(r.Steps)),
		"of the first",
		"median update of one package, MB",
		"of the first",
	}
	rows := []bench.Row{head}
	for _, w := range r.Ways {
		x := bench.Row{
			w.Name,
			fmt.Sprintf("%.1f", bench.MB(w.Whole)),
			fmt.Sprintf("%.1f", bench.MB(w.Update)),
			w.part(w.Update),
			"",
			"",
			"",
			"",
		}
		if len(w.Days) > 0 {
			one := r.oneUpdate(w)
			x[4], x[5] = fmt.Sprintf("%.1f", bench.MB(total(w.Days))), w.part(total(w.Days))
			x[6], x[7] = fmt.Sprintf("%.2f", bench.MB(one[len(one)/2])), w.part(one[len(one)/2])
		}
		if w.Name == wholeName {
			each := int64(len(r.Steps)) * w.Update
			x[4], x[5], x[6], x[7] = fmt.Sprintf(
				"%.0f (each whole)",
				bench.MB(each),
			), w.part(
				each,
			), fmt.Sprintf(
				"%.1f",
				bench.MB(w.Update),
			), w.part(
				w.Update,
			)
		}
		rows = append(rows, x)
	}
	return bench.Table(rows)
}

func total(of []int64) (n int64) {
	for _, x := range of {
		n += x
	}
	return n
}

// part is a share of the way's first version.
func (w wayResult) part(n int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(w.Whole, 1)))
}

// oneUpdate returns the bytes of the days on which one source package was updated, in ascending order.
func (r *updateResult) oneUpdate(w wayResult) (out []int64) {
	for i, s := range r.Steps {
		if s.Update && i < len(w.Days) {
			out = append(out, w.Days[i])
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		out = []int64{0}
	}
	return out
}
