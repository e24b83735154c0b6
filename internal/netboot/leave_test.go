package netboot

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// loaderRun runs a script like iPXE whose server is dead. Every chain command fails, except for files of the disk that
// iPXE was started from.
type loaderRun struct {
	settings map[string]string
	files    []string
	rounds   int  // how often it slept
	left     bool // iPXE ended
}

// run runs at most a number of lines of a script.
func (m *loaderRun) run(script string, most int) {
	lines := strings.Split(script, "\n")
	for at := 0; at < len(lines) && most > 0 && !m.left; most-- {
		line := m.expand(lines[at])
		at++
		if label := m.line(line); label != "" {
			for i, l := range lines {
				if l == ":"+label {
					at = i
				}
			}
		}
	}
}

func (m *loaderRun) expand(line string) string {
	for {
		i := strings.Index(line, "${")
		if i < 0 {
			return line
		}
		j := i + strings.Index(line[i:], "}")
		line = line[:i] + m.settings[line[i+2:j]] + line[j+1:]
	}
}

// line runs the commands of one line by the rules of "||" and "&&", and returns a label to go to.
func (m *loaderRun) line(line string) (label string) {
	words, ok, run := strings.Fields(line), true, true
	for len(words) > 0 && label == "" && !m.left {
		end := 0
		for end < len(words) && words[end] != "||" && words[end] != "&&" {
			end++
		}
		if run {
			ok, label = m.command(words[:end])
		}
		if end == len(words) {
			break
		}
		run, words = ok == (words[end] == "&&"), words[end+1:]
	}
	return label
}

func (m *loaderRun) command(words []string) (ok bool, label string) {
	if len(words) == 0 {
		return true, ""
	}
	last := words[len(words)-1]
	switch words[0] {
	case "goto":
		return true, last
	case "sleep":
		m.rounds++
	case "set":
		name, _, _ := strings.Cut(words[1], ":")
		m.settings[name] = last
	case "inc":
		n, _ := strconv.Atoi(m.settings[last])
		m.settings[last] = strconv.Itoa(n + 1)
	case "iseq":
		return words[1] == last, ""
	case "isset":
		return len(words) > 1, ""
	case "exit":
		m.left = true
	case "chain":
		for _, f := range m.files {
			m.left = m.left || f == last // that script makes iPXE leave
		}
		return false, ""
	case "ifconf", "dhcp", "kernel", "initrd", "boot":
		return false, ""
	}
	return true, ""
}

// A machine whose server dies after the machine got a script repeats its requests. Only a machine that was started from
// a boot medium leaves after some rounds, so that its medium starts what it has.
func TestOnlyFromAMediumIsLeft(t *testing.T) {
	in := start()
	for _, action := range []Action{Start, Queued, Wait, Fail} {
		in.Action, in.Message, in.Admission.Sleep = action, "what is the matter", time.Second
		script, err := Script(in)
		if err != nil {
			t.Fatal(err)
		}
		leaves(t, string(action), string(script))
	}
	leaves(t, "chain", string(Chain(in.Base)))
}

func leaves(t *testing.T, name, script string) {
	t.Helper()
	const long = 10_000 // lines, of which a round has six
	for by, c := range map[string]struct {
		m    loaderRun
		left bool
	}{
		"firmware":          {loaderRun{}, false},
		"a medium by BIOS":  {loaderRun{settings: map[string]string{"medium": "1"}}, true},
		"a medium by UEFI":  {loaderRun{files: []string{"file:/pando/leave.ipx"}}, true},
		"somebody's stick":  {loaderRun{files: []string{"file:/autoexec.ipxe"}}, false},
		"in a later script": {loaderRun{settings: map[string]string{"medium": "1", "tries": "3"}}, true},
	} {
		m := c.m
		if m.settings == nil {
			m.settings = map[string]string{}
		}
		m.run(script, long)
		before := strings.Count(strings.SplitN(script, ":ask", 2)[0], "\nsleep ")
		switch {
		case m.left != c.left:
			t.Errorf("%s, started by %s: left %v after %d rounds", name, by, m.left, m.rounds)
		case m.left && m.rounds != before+leaveAfter:
			t.Errorf("%s, started by %s: left after %d rounds, want %d", name, by, m.rounds-before, leaveAfter)
		case !m.left && m.rounds < long/10:
			t.Errorf("%s, started by %s: it stopped asking after %d rounds", name, by, m.rounds)
		}
	}
}
