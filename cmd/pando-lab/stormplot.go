package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// plot is a diagram of one figure against the number of nodes, both axes logarithmic.
type plot struct {
	title string
	of    func(stormRun) float64
	model func(estimate) float64
}

var plots = map[string]plot{
	"time": {
		"time until the last node has booted, in W/(eta B)",
		stormRun.units,
		func(e estimate) float64 { return e.Units },
	},
	"server": {
		"bytes that left the server, in W",
		stormRun.amplification,
		func(e estimate) float64 { return e.Server },
	},
}

// Size of a diagram and of the frame within it, in pixels.
const (
	plotWidth, plotHeight = 720.0, 440.0
	plotLeft, plotRight   = 60.0, 600.0
	plotTop, plotBottom   = 40.0, 390.0
	colours               = "#1b6ca8 #63a4d8 #0b3c5d #2e933c #d1495b #8d5a97 #b8860b #444444 #c2610c " +
		"#7a9e1f #a0527a #5f6b6d"
	axisStyle, textStyle, titleStyle = `stroke="#999" stroke-width="1"`, `font-family="sans-serif" font-size="12"`, `font-family="sans-serif" font-size="15"`
)

// axis maps a logarithmic range of whole powers of ten to pixels.
type axis struct {
	low, high float64 // powers of ten
	from, to  float64 // pixels
}

func newAxis(values []float64, from, to float64) axis {
	a := axis{math.Inf(1), math.Inf(-1), from, to}
	for _, v := range values {
		a.low, a.high = min(a.low, math.Floor(math.Log10(v))), max(a.high, math.Ceil(math.Log10(v)))
	}
	if a.low == a.high {
		a.high++
	}
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks are the powers of ten of the axis.
func (a axis) ticks() (out []float64) {
	for p := a.low; p <= a.high; p++ {
		out = append(out, math.Pow(10, p))
	}
	return out
}

// line is one system's runs.
type line struct {
	name     string
	points   [][2]float64 // nodes and figure
	modelled [][2]float64 // points that were not measured
}

// lines are the median runs of all systems, and what is modelled. busy: discarded runs, too.
func (r *report) lines(p plot, busy bool) (out []line) {
	index := map[string]int{}
	for _, k := range r.kinds() {
		m, ok := r.typical(k, busy)
		if most, good := r.like(kind{k.nodes, k.system, slowest, 0}, busy); !ok || k.server != 0 ||
			good && most.NodeRate != k.rate {
			continue
		}
		i, ok := index[k.system]
		if !ok {
			i = len(out)
			index[k.system] = i
			out = append(out, line{name: k.system})
		}
		out[i].points = append(out[i].points, [2]float64{float64(k.nodes), p.of(m)})
	}
	for _, e := range r.Modelled {
		if i, ok := index[e.System]; ok {
			out[i].modelled = append(out[i].modelled, [2]float64{float64(e.Nodes), p.model(e)})
		}
	}
	return out
}

// svg draws a plot; "" when no run has a figure.
func (r *report) svg(p plot, busy bool) string {
	lines := r.lines(p, busy)
	var xs, ys []float64
	for _, l := range lines {
		for _, q := range append(l.points, l.modelled...) {
			xs, ys = append(xs, q[0]), append(ys, q[1])
		}
	}
	if len(xs) == 0 {
		return ""
	}
	x, y := newAxis(xs, plotLeft, plotRight), newAxis(ys, plotBottom, plotTop)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(
		&out,
		`<rect width="100%%" height="100%%" fill="white"/><text x="%g" y="24" %s>%s</text>`+"\n",
		plotLeft,
		titleStyle,
		escape(p.title),
	)
	drawAxes(&out, x, y)
	for i, l := range lines {
		colour := strings.Fields(colours)[i%len(strings.Fields(colours))]
		drawLine(&out, l, x, y, colour)
		fmt.Fprintf(
			&out,
			`<text x="%g" y="%g" fill="%s" %s>%s</text>`+"\n",
			plotRight+12,
			plotTop+14+18*float64(i),
			colour,
			textStyle,
			escape(l.name),
		)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func drawAxes(out *strings.Builder, x, y axis) {
	for _, v := range x.ticks() {
		fmt.Fprintf(
			out,
			`<line x1="%[1]g" y1="%[2]g" x2="%[1]g" y2="%[3]g" %[4]s/><text x="%[1]g" y="%[5]g" text-anchor="middle" %[6]s>%[7]g</text>`+"\n",
			x.at(v),
			plotTop,
			plotBottom,
			axisStyle,
			plotBottom+18,
			textStyle,
			v,
		)
	}
	for _, v := range y.ticks() {
		fmt.Fprintf(
			out,
			`<line x1="%[1]g" y1="%[2]g" x2="%[3]g" y2="%[2]g" %[4]s/><text x="%[5]g" y="%[6]g" text-anchor="end" %[7]s>%[8]g</text>`+"\n",
			plotLeft,
			y.at(v),
			plotRight,
			axisStyle,
			plotLeft-6,
			y.at(v)+4,
			textStyle,
			v,
		)
	}
	fmt.Fprintf(
		out,
		`<text x="%g" y="%g" text-anchor="middle" %s>nodes (hollow, dashed: modelled)</text>`+"\n",
		(plotLeft+plotRight)/2,
		plotBottom+38,
		textStyle,
	)
}

// drawLine draws what was measured, and with hollow points and dashes what is modelled.
func drawLine(out *strings.Builder, l line, x, y axis, colour string) {
	stroke := func(points [][2]float64, more string) {
		var at []string
		for _, q := range points {
			at = append(at, fmt.Sprintf("%.1f,%.1f", x.at(q[0]), y.at(q[1])))
		}
		fmt.Fprintf(
			out,
			`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n",
			strings.Join(at, " "),
			colour,
			more,
		)
	}
	circle := func(points [][2]float64, fill string) {
		for _, q := range points {
			fmt.Fprintf(
				out,
				`<circle cx="%.1f" cy="%.1f" r="4" fill="%s" stroke="%s"/>`+"\n",
				x.at(q[0]),
				y.at(q[1]),
				fill,
				colour,
			)
		}
	}
	stroke(l.points, "")
	if len(l.modelled) > 0 {
		stroke(append(slices.Clone(l.points[len(l.points)-1:]), l.modelled...), ` stroke-dasharray="5 4"`)
	}
	circle(l.points, colour)
	circle(l.modelled, "white")
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes everything
	return b.String()
}
