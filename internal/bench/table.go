package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Row is a line of the table.
type Row []string

// Table formats a table for the terminal. Its first row is the head.
func Table(rows []Row) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, x := range rows {
		fmt.Fprintln(w, strings.Join(x, "\t")+"\t")
	}
	_ = w.Flush() // writing to a Builder never fails
	return out.String()
}

// OrDash formats a figure times scale. It returns "-" for 0, which clients inside this program have.
func OrDash(v float64, format string, scale float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(format, v*scale)
}

// MB converts bytes to megabytes.
func MB(n int64) float64 { return float64(n) / 1e6 }

// Median returns the median of sorted values.
func Median(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// MedianOf returns the median of values in any order.
func MedianOf(of []float64) float64 { return Median(slices.Sorted(slices.Values(of))) }
