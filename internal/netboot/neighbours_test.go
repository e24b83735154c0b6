package netboot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// loader runs a script as iPXE does (src/core/exec.c and src/image/script.c of 2.0.0), as far as Pando's scripts use it.
// Its network answers a URL with an object's name, with junk, or not at all.
type loader struct {
	get      func(url string) (content string, ok bool)
	lacks    string // a command that it does not have
	settings map[string]string
	images   []loaded // in the order of its list
	selected string
	booted   []loaded // what the kernel gets, the kernel first
	asked    []string
}

type loaded struct{ name, content string }

var (
	errCommand = errors.New("command failed")
	errBooted  = errors.New("booted")
)

// run executes lines until the script boots, or asks for another script.
func (l *loader) run(t *testing.T, script []byte) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(script)), "\n")
	for at, steps := 1, 0; at < len(lines); at++ {
		if steps++; steps > 1000 {
			t.Fatal("the script does not end")
		}
		line := lines[at]
		if strings.HasPrefix(line, ":") {
			continue
		}
		label, err := l.command(line)
		if errors.Is(err, errBooted) || label == "ask" {
			return
		}
		if label != "" {
			if at = slices.Index(lines, ":"+label); at < 0 {
				t.Fatalf("no label %s", label)
			}
			continue
		}
		if err != nil {
			t.Fatalf("the script ends at %q", line)
		}
	}
}

// command executes a line; label is where a goto leads.
func (l *loader) command(line string) (label string, err error) {
	words, process := strings.Fields(line), true
	for {
		end := slices.IndexFunc(words, func(w string) bool { return w == "||" || w == "&&" })
		one := words
		if end >= 0 {
			one = words[:end]
		}
		if process {
			if len(one) == 0 {
				err = nil
			} else if label, err = l.exec(one); label != "" || errors.Is(err, errBooted) {
				return label, err
			}
		}
		if end < 0 {
			return "", err
		}
		process = (err == nil) == (words[end] == "&&")
		words = words[end+1:]
	}
}

var expansion = regexp.MustCompile(`\$\{([a-z0-9]+)\}`)

func (l *loader) exec(argv []string) (label string, err error) {
	argv = slices.Clone(argv)
	for i, a := range argv {
		argv[i] = expansion.ReplaceAllStringFunc(a, func(s string) string { return l.settings[s[2:len(s)-1]] })
	}
	named := func(name string) int {
		return slices.IndexFunc(l.images, func(i loaded) bool { return i.name == name })
	}
	if argv[0] == l.lacks {
		return "", errCommand
	}
	switch argv[0] {
	case "echo", "sleep", "ifconf", "dhcp":
	case "set", "clear":
		value := strings.Join(argv[2:], " ")
		l.settings[argv[1]] = value
	case "goto":
		return argv[1], nil
	case "chain":
		return "ask", nil
	case "imgfree":
		if len(argv) == 1 {
			l.images = nil
		} else if i := named(argv[1]); i >= 0 {
			l.images = slices.Delete(l.images, i, i+1)
		} else {
			return "", errCommand
		}
	case "imgfetch", "initrd", "kernel":
		url := argv[slices.IndexFunc(argv, func(a string) bool { return strings.HasPrefix(a, "http://") })]
		l.asked = append(l.asked, url)
		content, ok := l.get(url)
		if !ok {
			return "", errCommand
		}
		l.images = append(l.images, loaded{argv[2], content})
		if argv[0] == "kernel" {
			l.selected = argv[2]
		}
	case "imgselect":
		l.selected = argv[1]
	case "sha256sum":
		i := named(argv[3])
		if i < 0 {
			return "", errCommand
		}
		l.settings[strings.TrimSuffix(argv[2], ":hexraw")] = l.images[i].content
	case "iseq":
		if len(argv) != 3 || argv[1] != argv[2] {
			return "", errCommand
		}
	case "boot":
		i := named(l.selected)
		if i < 0 {
			return "", errCommand
		}
		l.booted = append([]loaded{l.images[i]}, slices.Delete(slices.Clone(l.images), i, i+1)...)
		return "", errBooted
	default:
		return "", fmt.Errorf("unknown command %q: %w", argv[0], errCommand)
	}
	return "", nil
}

// Whatever neighbours answer, a machine boots the kernel and the initramfs of its script with its own trust cpio, and
// nothing else is in iPXE's list; and the server is told who did what.
func TestNeighboursAnswer(t *testing.T) {
	in := neighbours()
	script, err := Script(in)
	if err != nil {
		t.Fatal(err)
	}
	trust := in.Base + "/boot/" + string(in.Boot) + "/trust"
	refused := 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		l := &loader{settings: map[string]string{"refused": "of an earlier try"}}
		var report string
		l.get = func(url string) (string, bool) {
			switch {
			case url == trust:
				return "trust", true
			case strings.HasPrefix(url, in.Base+"/boot/"+string(in.Boot)+"/sources?"):
				report = url
				return "", random.IntN(2) == 0
			}
			_, id, isObject := strings.Cut(url, "/o/")
			if !isObject {
				t.Fatalf("it fetches %s", url)
			}
			if strings.HasPrefix(url, in.Base) {
				return id, true
			}
			switch random.IntN(3) {
			case 0:
				return "", false
			case 1:
				refused++
				return [...]string{"", "junk", in.Kernel, in.Initramfs}[random.IntN(4)], true
			}
			return id, true
		}
		l.run(t, script)
		want := []loaded{{"BOOT_IMAGE=linux", in.Kernel}, {"trust", "trust"}, {"initramfs", in.Initramfs}}
		if !slices.Equal(l.booted, want) {
			t.Fatalf("seed %d: it boots %q, want %q", seed, l.booted, want)
		}
		if !regexp.MustCompile(`\?kernel=[01s]&initramfs=[01s]&refused=([ki][01]\.)*$`).MatchString(report) {
			t.Fatalf("seed %d: it reports %q", seed, report)
		}
		tries := strings.Count(report, ".") // dots of the address, and of what was refused
		if own := strings.Count(in.Base, "."); len(l.asked) != 2+2+tries-own {
			t.Errorf("seed %d: it asked for %q, and reports %q", seed, l.asked, report)
		}
	}
	if refused == 0 {
		t.Error("nobody sent anything wrong")
	}
}

// A neighbour is asked for objects and nothing else, and no token is in what it is asked.
func TestNeighbourLearnsNothing(t *testing.T) {
	in := neighbours()
	script, err := Script(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range in.Neighbours {
		for _, url := range regexp.MustCompile(regexp.QuoteMeta(n)+`\S*`).FindAllString(string(script), -1) {
			if url != n+"/o/"+in.Kernel && url != n+"/o/"+in.Initramfs {
				t.Errorf("a neighbour is asked for %s", url)
			}
		}
	}
}

// A script finds out whether its loader verifies digests, and tells it with the next request.
func TestProbe(t *testing.T) {
	script, err := Script(ScriptInput{Action: Probe, Base: start().Base, MAC: start().MAC})
	if err != nil {
		t.Fatal(err)
	}
	for lacks, want := range map[string]Ability{"": Has, "sha256sum": Lacks} {
		l := &loader{lacks: lacks, settings: map[string]string{}, get: func(string) (string, bool) { return "x", true }}
		l.run(t, script)
		if got := Ability(l.settings[digestsSetting]); got != want || len(l.images) > 0 {
			t.Errorf("a loader without %q says %q, has %q; want %q", lacks, got, l.images, want)
		}
		q, err := ParseQuery("mac=52-54-00-12-34-56&sha256=" + string(want))
		if err != nil || q.Digests != want {
			t.Errorf("ParseQuery = %q, %v; want %q", q.Digests, err, want)
		}
	}
}
