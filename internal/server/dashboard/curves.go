package dashboard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
)

// mostSteps is the largest number of steps on a storm's time scale. A step is at least a second, like a sample.
const mostSteps = 240

// curves show the traffic of servers during a storm, on the storm's time scale.
type curves struct {
	Sent, Disk chart
	Rows       []curveRow // the same as a table with fewer steps
	Tips       string     // the text for each step, as JSON
}

// chart is one field with lines on a common scale.
type chart struct {
	Lines []chartLine
	Peak  int64 // highest value, in bytes a second
	Sum   int64 // bytes of all lines
}

// chartLine is one line of a chart.
type chartLine struct {
	Class  string // of the style sheet
	Name   string
	Sum    int64
	Points string // points of a polyline on a field of 1000 by 100
	steps  []int64
}

// curveRow is the traffic in one part of the time, in bytes a second.
type curveRow struct {
	At                  time.Duration
	Up                  int
	Sent, Read, Written int64
}

// newCurves returns the curves of samples. ups are the times at which nodes came up, in order.
func newCurves(samples []api.Sample, began time.Time, total time.Duration, ups []time.Duration) curves {
	step := max(total/mostSteps, time.Second)
	steps := int((total + step - 1) / step)
	var c curves
	names := []string{}
	for _, s := range samples {
		if !slices.Contains(names, s.Server) {
			names = append(names, s.Server)
		}
	}
	slices.Sort(names)
	var all, read, written = make([]int64, steps), make([]int64, steps), make([]int64, steps)
	for i, name := range names {
		sent := make([]int64, steps)
		for _, s := range samples {
			if s.Server == name {
				spread(sent, s, s.Sent, began, step)
				spread(read, s, s.Read, began, step)
				spread(written, s, s.Written, began, step)
			}
		}
		for n := range sent {
			all[n] += sent[n]
		}
		c.Sent.Lines = append(c.Sent.Lines, chartLine{Class: fmt.Sprintf("line-%d", i%4), Name: name, steps: sent})
	}
	if len(names) > 0 {
		c.Disk.Lines = []chartLine{
			{Class: "line-read", Name: "read", steps: read},
			{Class: "line-written", Name: "written", steps: written},
		}
		c.Sent.draw(step)
		c.Disk.draw(step)
	}
	c.tell(step, ups, all, read, written)
	return c
}

// spread adds the bytes of a sample to the steps that it overlaps.
func spread(steps []int64, s api.Sample, bytes int64, began time.Time, step time.Duration) {
	width := max(s.Width, time.Second)
	from := s.At.Sub(began)
	if from < 0 && from+width > 0 { // samples start at full seconds, storms in between
		width, from = from+width, 0
	}
	for n := max(int(from/step), 0); n < len(steps) && time.Duration(n)*step < from+width; n++ {
		begin, end := max(time.Duration(n)*step, from), min(time.Duration(n+1)*step, from+width)
		if end > begin {
			steps[n] += int64(float64(bytes) * float64(end-begin) / float64(width))
		}
	}
}

// headroom is the height of the highest line in a field of 100: at the very edge half of the line's width would be cut
// off.
const headroom = 94

// draw computes the points of the lines.
func (c *chart) draw(step time.Duration) {
	for i := range c.Lines {
		for _, b := range c.Lines[i].steps {
			c.Lines[i].Sum += b
			c.Peak = max(c.Peak, perSecond(b, step))
		}
		c.Sum += c.Lines[i].Sum
	}
	for i, l := range c.Lines {
		var s strings.Builder
		wide := 1000 / float64(len(l.steps))
		for n, b := range l.steps {
			y := 100 - headroom*float64(perSecond(b, step))/float64(max(c.Peak, 1))
			fmt.Fprintf(&s, "%.1f,%.1f %.1f,%.1f ", float64(n)*wide, y, float64(n+1)*wide, y)
		}
		c.Lines[i].Points = strings.TrimSpace(s.String())
	}
}

func perSecond(bytes int64, step time.Duration) int64 {
	return int64(float64(bytes) / step.Seconds())
}

// tableRows is how many rows the table of curves has.
const tableRows = 24

// tell fills in the texts and the table.
func (c *curves) tell(step time.Duration, ups []time.Duration, sent, read, written []int64) {
	var tips []string
	group := (len(sent) + tableRows - 1) / tableRows
	up := 0
	for n := range sent {
		end := time.Duration(n+1) * step
		for up < len(ups) && ups[up] <= end {
			up++
		}
		tip := fmt.Sprintf("%s: %d up", span(time.Duration(n)*step), up)
		if len(c.Sent.Lines) > 0 {
			tip += fmt.Sprintf(
				"; %s/s sent, %s/s read, %s/s written",
				size(perSecond(sent[n], step)),
				size(perSecond(read[n], step)),
				size(perSecond(written[n], step)),
			)
		}
		tips = append(tips, tip)
		if n%group == 0 {
			c.Rows = append(c.Rows, curveRow{At: time.Duration(n) * step})
		}
		long := time.Duration(min(group, len(sent)-n/group*group)) * step
		row := &c.Rows[len(c.Rows)-1]
		row.Up = up
		row.Sent, row.Read, row.Written = row.Sent+perSecond(
			sent[n],
			long,
		), row.Read+perSecond(
			read[n],
			long,
		), row.Written+perSecond(
			written[n],
			long,
		)
	}
	text, _ := json.Marshal(tips) // strings always encode
	c.Tips = string(text)
}
