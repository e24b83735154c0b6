package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"pando/internal/output"
	"pando/internal/steps"
)

// Progress draws how far a build is: a bar with rate and time left on a terminal, plain lines otherwise. What
// others write through it (the log of a server that runs meanwhile) does not tear the bar.
type Progress struct {
	mu      sync.Mutex
	out     io.Writer
	tty     *os.File // nil: plain lines
	now     func() time.Time
	names   map[string]string // what a step does, by its name
	step    steps.Progress
	started time.Time // of the step
	shown   time.Time
	bar     string // what stands on the last line of the terminal
}

// How often a bar is drawn, and a plain line is written: a log file needs no more.
const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 15 * time.Second
)

// lineWidth cuts plain lines: what an installer prints has no bound.
const lineWidth = 120

// NewProgress draws on out. Names say what a step does before it has anything to count.
func NewProgress(out io.Writer, now func() time.Time, names map[string]string) *Progress {
	return &Progress{out: out, tty: Of(out), now: now, names: names}
}

// Show is told of every piece of progress.
func (p *Progress) Show(s steps.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if s.Step != p.step.Step {
		p.endStep(now)
		p.started, p.shown = now, time.Time{}
	}
	if s.Note == "" && s.Total == 0 && s.Done == 0 {
		s.Note = p.step.Note
		if s.Step != p.step.Step {
			s.Note = p.names[s.Step]
		}
	}
	p.step = s
	every := lineEvery
	if p.tty != nil {
		every = barEvery
	}
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	if p.tty == nil {
		fmt.Fprintln(p.out, Cut(p.text(now), lineWidth))
		return
	}
	width, _ := Size(p.tty)
	p.draw(Cut(p.text(now), width-1))
}

// text is the state of the step in one line.
func (p *Progress) text(now time.Time) string {
	s := p.step
	if s.Unit == "" || s.Done == 0 && s.Total == 0 {
		return fmt.Sprintf("%-9s %s", s.Step, s.Note)
	}
	took := now.Sub(p.started).Seconds()
	if s.Unit != "bytes" {
		return fmt.Sprintf("%-9s %s %s%s", s.Step, Bar(s.Done, s.Total), counted(s.Done, s.Total), s.Unit)
	}
	line := fmt.Sprintf("%-9s %s %s", s.Step, Bar(s.Done, s.Total), output.Size(s.Done))
	if s.Total > 0 {
		line += " of " + output.Size(s.Total)
	}
	if took >= 0.5 {
		rate := float64(s.Done) / took
		line += "  " + output.Size(int64(rate)) + "/s"
		if s.Total > s.Done && rate > 0 {
			line += "  " + output.Span(time.Duration(float64(s.Total-s.Done)/rate*float64(time.Second))) + " left"
		}
	}
	return line
}

const shareWidth = 24

// Bar is a bar and a percentage; nothing where the end is not known.
func Bar(done, total int64) string {
	if total <= 0 {
		return ""
	}
	done = min(done, total)
	n := int(done * shareWidth / total)
	return fmt.Sprintf("[%s%s] %3d %% ", strings.Repeat("=", n), strings.Repeat(" ", shareWidth-n), done*100/total)
}

func counted(done, total int64) string {
	if total > 0 {
		return fmt.Sprintf("%d of %d ", done, total)
	}
	return fmt.Sprintf("%d ", done)
}

// endStep reports how long the last step took, when that is worth a line.
func (p *Progress) endStep(now time.Time) {
	if p.step.Step == "" {
		return
	}
	p.clear()
	fmt.Fprintf(p.out, "%-9s done in %s\n", p.step.Step, output.Span(now.Sub(p.started)))
}

// End takes the bar away. A step that failed is not called done.
func (p *Progress) End(ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		p.endStep(p.now())
	}
	p.clear()
	p.step = steps.Progress{}
}

func (p *Progress) draw(line string) {
	p.bar = line
	fmt.Fprint(p.screen(), "\r"+line+"\x1b[K")
}

// screen is where a bar is drawn.
func (p *Progress) screen() io.Writer {
	if p.tty != nil {
		return p.tty
	}
	return p.out
}

func (p *Progress) clear() {
	if p.bar != "" {
		fmt.Fprint(p.screen(), "\r\x1b[K")
		p.bar = ""
	}
}

// Write writes somebody else's lines above the bar.
func (p *Progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bar := p.bar
	p.clear()
	n, err := p.out.Write(b)
	if bar != "" {
		p.draw(bar)
	}
	return n, err
}
