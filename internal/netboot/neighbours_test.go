package netboot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// loader runs a script as iPXE does (src/core/exec.c, src/image/script.c and src/interface/efi/efi_file.c of 2.0.0), as
// far as Pando's scripts use it. Its network answers a URL with an object's name, with junk, or not at all.
type loader struct {
	get      func(url string) (content string, ok bool)
	lacks    string // a command that it does not have
	settings map[string]string
	images   []loaded // in the order of its list
	selected string
	kernel   string   // content of the kernel that booted
	initrd   []string // contents of the images that the kernel reads, in order
	asked    []string
}

type loaded struct {
	name, content, args string
	hidden              bool
}

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
		at := slices.IndexFunc(argv, func(a string) bool { return strings.HasPrefix(a, "http://") })
		url := argv[at]
		l.asked = append(l.asked, url)
		content, ok := l.get(url)
		if !ok {
			return "", errCommand
		}
		l.images = append(l.images, loaded{name: argv[2], content: content, args: strings.Join(argv[at+1:], " ")})
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
	case "isset":
		if len(argv) != 2 || argv[1] == "" {
			return "", errCommand
		}
	case "iseq":
		if len(argv) != 3 || argv[1] != argv[2] {
			return "", errCommand
		}
	case "shim":
		if l.selected != "" {
			return "", nil // this kernel can be loaded: no shim is needed, and no image is hidden
		}
		if len(argv) > 1 {
			i := named(argv[1])
			if i < 0 {
				return "", errCommand
			}
			l.images[i].hidden = true
		}
	case "boot":
		i := named(l.selected)
		if i < 0 {
			return "", errCommand
		}
		l.kernel, l.initrd = l.images[i].content, l.initrdOf(l.images[i])
		return "", errBooted
	default:
		return "", fmt.Errorf("unknown command %q: %w", argv[0], errCommand)
	}
	return "", nil
}

// initrdOf returns what a kernel that UEFI starts reads as its initramfs: all images that are not hidden, by LoadFile2.
// If there are none, it reads the images that its initrd= arguments name.
func (l *loader) initrdOf(kernel loaded) (out []string) {
	for _, i := range l.images {
		if !i.hidden && i.name != kernel.name {
			out = append(out, i.content)
		}
	}
	if out != nil {
		return out
	}
	for word := range strings.FieldsSeq(kernel.args) {
		name, is := strings.CutPrefix(word, "initrd=")
		if !is {
			continue
		}
		i := slices.IndexFunc(l.images, func(i loaded) bool { return i.name == name })
		if i < 0 {
			return append(out, "no image "+name)
		}
		out = append(out, l.images[i].content)
	}
	return out
}

// Whatever neighbours answer, a machine boots the kernel and the initramfs of its script with its own trust cpio, and
// nothing else reaches the kernel. The server is told who did what. A node that keeps the objects gets them as a file
// before the initramfs, if its loader can hide images.
func TestNeighboursAnswer(t *testing.T) {
	for _, lacks := range []string{"", "shim"} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("keep=%t,lacks=%s", keep, lacks), func(t *testing.T) { neighboursAnswer(t, keep, lacks) })
		}
	}
}

func neighboursAnswer(t *testing.T, keep bool, lacks string) {
	in := neighbours()
	in.Keep = keep
	script, err := Script(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"trust", in.Initramfs}
	own := 3 // requests to the server: trust cpio, two reports, and below the head
	if keep {
		own++
		if lacks == "" {
			want = []string{"trust", "head", in.Kernel, in.Initramfs, in.Initramfs}
		}
	}
	of := in.Base + "/boot/" + string(in.Boot)
	refused := 0
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		l := &loader{settings: map[string]string{"refused": "01", "bad0": "1"}, lacks: lacks}
		reports := map[bool]SourceReport{}
		l.get = func(address string) (string, bool) {
			switch {
			case address == of+"/trust", keep && address == of+"/head":
				return path.Base(address), true
			case strings.HasPrefix(address, of+"/sources?"):
				u, err := url.Parse(address)
				if err != nil {
					t.Fatal(err)
				}
				told, err := ParseSource(u.Query(), len(in.Neighbours))
				if err != nil {
					t.Fatalf("seed %d: it reports %q: %v", seed, address, err)
				}
				reports[told.Kernel] = told
				return "", random.IntN(2) == 0
			}
			_, id, isObject := strings.Cut(address, "/o/")
			if !isObject {
				t.Fatalf("it fetches %s", address)
			}
			if strings.HasPrefix(address, in.Base) {
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
		if l.kernel != in.Kernel || !slices.Equal(l.initrd, want) {
			t.Fatalf("seed %d: it boots %q with %q, want %q", seed, l.kernel, l.initrd, want)
		}
		if n := len(reports[true].Refused) + len(reports[false].Refused); len(l.asked) != own+2+n {
			t.Errorf("seed %d: it asked for %q, and reports %+v", seed, l.asked, reports)
		}
	}
	if refused == 0 {
		t.Error("nobody sent anything wrong")
	}
}

// What a machine reports is checked: it may name nobody but the neighbours of its script.
func TestSourceReport(t *testing.T) {
	for query, want := range map[string]SourceReport{
		"part=k&from=1&refused=0":  {Kernel: true, From: 1, Refused: []int{0}},
		"part=i&from=s&refused=01": {From: FromServer, Refused: []int{0, 1}},
		"part=i&from=0&refused=":   {From: 0},
	} {
		q, _ := url.ParseQuery(query)
		if got, err := ParseSource(q, 2); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", query, got, err, want)
		}
	}
	for _, bad := range []string{"", "part=k", "part=x&from=s", "part=k&from=2", "part=k&from=00",
		"part=k&from=s&refused=2", "part=k&from=s&refused=-1", "part=k&from=s&refused=01010"} {
		q, _ := url.ParseQuery(bad)
		if r, err := ParseSource(q, 2); err == nil {
			t.Errorf("%q is %+v", bad, r)
		}
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
		for _, u := range regexp.MustCompile(regexp.QuoteMeta(n)+`\S*`).FindAllString(string(script), -1) {
			if u != n+"/o/"+in.Kernel && u != n+"/o/"+in.Initramfs {
				t.Errorf("a neighbour is asked for %s", u)
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
			t.Errorf("a loader without %q says %q, has %d images; want %q", lacks, got, len(l.images), want)
		}
		q, err := ParseQuery("mac=52-54-00-12-34-56&sha256=" + string(want))
		if err != nil || q.Digests != want {
			t.Errorf("ParseQuery = %q, %v; want %q", q.Digests, err, want)
		}
	}
}
