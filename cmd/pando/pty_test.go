package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/sys/unix"

	"pando/internal/terminal"
	"pando/internal/testkit"
)

// ptyRun is a program on its own terminal, and the content of its screen.
type ptyRun struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	done   chan struct{}

	mu      sync.Mutex
	screen  *ptyScreen
	rest    string // an incomplete escape sequence
	changed time.Time
	err     error
}

// runOnPTY starts a program on a new terminal.
func runOnPTY(t *testing.T, width, height int, name string, args ...string) *ptyRun {
	t.Helper()
	master, slave := testkit.OpenPTY(t)
	defer slave.Close()
	p := &ptyRun{t: t, master: master, done: make(chan struct{}), screen: newPTYScreen(width, height)}
	p.resize(width, height)
	p.cmd = exec.Command(name, args...)
	p.cmd.Env = append(os.Environ(), "TERM=xterm")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		master.Close()
	})
	return p
}

func (p *ptyRun) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.rest = p.screen.write(p.rest + string(buf[:n]))
		p.changed = time.Now()
		p.mu.Unlock()
		if err != nil { // no process has the terminal open any more
			break
		}
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// resize changes the size of the terminal, as resizing a window does.
func (p *ptyRun) resize(width, height int) {
	p.t.Helper()
	p.mu.Lock()
	p.screen.resize(width, height)
	p.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		p.t.Fatal(err)
	}
}

// press sends the bytes of keys.
func (p *ptyRun) press(keys string) {
	p.t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// shows waits until good accepts the screen, and no line is wider than it. It returns the screen and the waiting time.
func (p *ptyRun) shows(what string, good func(lines []string) bool) (lines []string, took time.Duration) {
	p.t.Helper()
	begun := time.Now()
	for time.Since(begun) < 30*time.Second {
		p.mu.Lock()
		lines = slices.Clone(p.screen.lines())
		over, width := p.screen.over, p.screen.width
		p.mu.Unlock()
		if over != "" {
			p.t.Fatalf("a line is wider than the terminal: %q", over)
		}
		wide := slices.ContainsFunc(lines, func(l string) bool { return runewidth.StringWidth(l) > width })
		if good(lines) && !wide {
			return lines, time.Since(begun)
		}
		time.Sleep(time.Millisecond)
	}
	p.t.Fatalf("%s: not seen on\n%s", what, strings.Join(lines, "\n"))
	return nil, 0
}

// ended waits for the end of the program, and returns its error.
func (p *ptyRun) ended() error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(10 * time.Second):
		p.t.Fatal("it does not end")
		return nil
	}
}

// ptyScreen interprets the control sequences that this program uses; it fails on others.
type ptyScreen struct {
	width, height int
	rows          []string
	x, y          int
	hidden        bool   // the cursor is hidden
	over          string // a line that was too wide
	// previous width, and for how many frames it is allowed: a program learns of a new size only after the frame that
	// it draws
	was, late int
}

func newPTYScreen(width, height int) *ptyScreen {
	s := &ptyScreen{}
	s.resize(width, height)
	return s
}

func (s *ptyScreen) resize(width, height int) {
	s.was, s.late = s.width, 2
	s.width, s.height = width, height
	for len(s.rows) < height {
		s.rows = append(s.rows, "")
	}
	s.rows = s.rows[:height]
	s.y = min(s.y, height-1)
}

func (s *ptyScreen) lines() []string { return s.rows }

// write interprets text, and returns an incomplete escape sequence at its end.
func (s *ptyScreen) write(text string) (rest string) {
	for text != "" {
		if text[0] == '\x1b' {
			code, after, ok := cutEscape(text)
			if !ok {
				return text
			}
			s.obey(code)
			text = after
			continue
		}
		end := strings.IndexAny(text, "\x1b\r\n")
		switch {
		case end == 0 && text[0] == '\r':
			s.x = 0
			end = 1
		case end == 0:
			s.y++
			if s.y == s.height { // the screen scrolls
				s.rows, s.y = append(s.rows[1:], ""), s.height-1
			}
			end = 1
		default:
			if end < 0 {
				end = len(text)
			}
			s.put(text[:end])
		}
		text = text[end:]
	}
	return ""
}

// put writes text at the cursor. This program always writes lines from their beginning.
func (s *ptyScreen) put(text string) {
	line := s.rows[s.y]
	if s.x < len(line) {
		line = line[:s.x]
	}
	s.rows[s.y] = line + text
	s.x = len(s.rows[s.y])
	most := s.width
	if s.late > 0 {
		most = max(most, s.was)
	}
	if runewidth.StringWidth(s.rows[s.y]) > most {
		s.over = s.rows[s.y]
	}
}

func (s *ptyScreen) obey(code string) {
	switch code {
	case terminal.HideCursor, terminal.ShowCursor:
		s.hidden = code == terminal.HideCursor
	case terminal.CursorHome:
		s.x, s.y, s.late = 0, 0, max(0, s.late-1)
	case terminal.ClearScreen:
		clear(s.rows)
	case terminal.ClearLine:
		s.rows[s.y] = s.rows[s.y][:min(s.x, len(s.rows[s.y]))]
	case terminal.ClearBelow:
		s.obey(terminal.ClearLine)
		clear(s.rows[min(s.y+1, s.height):])
	default:
		s.over = fmt.Sprintf("unknown sequence %q", code)
	}
}

// cutEscape cuts an escape sequence, which ends with a letter, from the front.
func cutEscape(text string) (code, rest string, ok bool) {
	for i := 1; i < len(text); i++ {
		if c := text[i]; c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			return text[:i+1], text[i+1:], true
		}
	}
	return "", text, false
}
