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

// Progress draws the progress of a build: on a terminal a bar with rate and remaining time, otherwise plain lines.
// Other output that is written through it (the log of a server) appears above the bar.
type Progress struct {
	mu      sync.Mutex
	out     io.Writer
	tty     *os.File // nil: plain lines
	now     func() time.Time
	all     []Step // steps of the job, in order
	step    steps.Progress
	started time.Time // start of the step
	shown   time.Time
	bar     string // content of the terminal's last line
	ticks   *time.Timer
}

// Step describes a step of a job for people.
type Step struct {
	Name  string // name in progress reports
	Label string // one or two words
	Does  string // shown until there is something to count
}

// The intervals at which a bar is drawn and a plain line is written.
const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 15 * time.Second
	tickEvery = time.Second // a step without reports is drawn this often, to show its duration
)

// lineWidth is the maximum length of a plain line: output of an installer may be longer.
const lineWidth = 120

// NewProgress returns a Progress that draws on out. all may list the steps of the job; lines then number their step.
func NewProgress(out io.Writer, now func() time.Time, all []Step) *Progress {
	return &Progress{out: out, tty: Of(out), now: now, all: all}
}

// Show draws a progress report.
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
			s.Note = p.known(s.Step).Does
		}
	}
	p.step = s
	p.show(now)
	if p.ticks == nil {
		p.ticks = time.AfterFunc(tickEvery, p.tick)
	}
}

// tick draws a step that sends no reports.
func (p *Progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ticks == nil {
		return
	}
	if !p.step.Held {
		p.show(p.now())
	}
	p.ticks.Reset(tickEvery)
}

// show draws the step, unless it was drawn a moment ago. The caller holds mu.
func (p *Progress) show(now time.Time) {
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

// known returns the description of a step.
func (p *Progress) known(name string) Step {
	for _, s := range p.all {
		if s.Name == name {
			return s
		}
	}
	return Step{Name: name, Label: name}
}

// head returns the begin of a line: number and name of the step.
func (p *Progress) head() string {
	for i, s := range p.all {
		if s.Name == p.step.Step {
			return fmt.Sprintf("%d/%d %-11s", i+1, len(p.all), s.Label)
		}
	}
	return fmt.Sprintf("%-9s", p.step.Step)
}

// text returns the state of the step in one line.
func (p *Progress) text(now time.Time) string {
	s, took := p.step, now.Sub(p.started)
	line := p.head()
	if s.Unit == "" || s.Done == 0 && s.Total == 0 {
		if took >= time.Second {
			line += " " + output.Span(took.Truncate(time.Second)) + ":"
		}
		return line + " " + s.Note
	}
	line += " " + Bar(s.Done, s.Total)
	if s.Unit != "bytes" {
		return line + counted(s.Done, s.Total) + s.Unit + left(s, took)
	}
	line += output.Size(s.Done)
	if s.Total > 0 {
		line += " of " + output.Size(s.Total)
	}
	if took >= time.Second/2 {
		line += ", " + output.Size(int64(float64(s.Done)/took.Seconds())) + "/s"
	}
	return line + left(s, took)
}

// left estimates the remaining time of a step from the rate so far.
func left(s steps.Progress, took time.Duration) string {
	if took < time.Second/2 || s.Done <= 0 || s.Total <= s.Done {
		return ""
	}
	rest := time.Duration(float64(took) * float64(s.Total-s.Done) / float64(s.Done))
	return ", " + output.Span(rest) + " left"
}

const shareWidth = 24

// Bar returns a bar and a percentage; "" if the total is unknown.
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

// endStep prints the duration of the last step, if it is worth a line.
func (p *Progress) endStep(now time.Time) {
	if p.step.Step == "" {
		return
	}
	p.clear()
	fmt.Fprintf(p.out, "%s done in %s\n", p.head(), output.Span(now.Sub(p.started)))
}

// End removes the bar. It prints the end of the last step only if that succeeded.
func (p *Progress) End(ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		p.endStep(p.now())
	}
	p.clear()
	p.step = steps.Progress{}
	if p.ticks != nil {
		p.ticks.Stop()
		p.ticks = nil
	}
}

func (p *Progress) draw(line string) {
	p.bar = line
	fmt.Fprint(p.screen(), "\r"+line+"\x1b[K")
}

// screen returns the writer on which the bar is drawn.
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

// Write writes other output above the bar.
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
