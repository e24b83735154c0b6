// Command testsum summarises the output of `go test -json`: the seconds of each package, the output of failed tests,
// and at the end the slowest tests and every skipped test with its reason.
//
//	-skips FILE   a skip that FILE does not list fails the run; FILE has lines "package test", and comments after '#'
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	skips := flag.String("skips", "", "file of expected skips; others are failures")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *skips)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is one line of `go test -json`, or of `go build -json` inside it.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
	ImportPath                    string // package of a build event
}

// name returns a key for the test.
func (e event) name() string { return e.Package + " " + e.Test }

// timed is a test and its duration in seconds.
type timed struct {
	name    string
	seconds float64
}

// slowest is how many of the slowest tests are printed.
const slowest = 10

type summary struct {
	out     io.Writer
	output  map[string][]string // output of a test, or of a package outside its tests
	passed  int
	inside  map[string]int // tests that passed, by package
	slow    []timed        // tests that are not subtests
	skipped []string       // "package test: reason"
	failed  []string
}

func run(in io.Reader, out io.Writer, expected string) (bool, error) {
	s := &summary{out: out, output: map[string][]string{}, inside: map[string]int{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	start := time.Now()
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // not from go test: a failed build prints plain text
			continue
		}
		s.add(e)
	}
	if err := lines.Err(); err != nil {
		return false, err
	}
	s.printSlowest()
	fmt.Fprintf(out, "\n%d tests passed, %d failed, %d skipped in %s\n", s.passed, len(s.failed), len(s.skipped),
		time.Since(start).Round(time.Second))
	unexpected, err := s.unexpected(expected)
	return len(s.failed) == 0 && len(unexpected) == 0, err
}

func (s *summary) add(e event) {
	switch e.Action {
	case "output":
		s.output[e.name()] = append(s.output[e.name()], e.Output)
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "pass":
		s.pass(e)
		s.time(e)
	case "skip":
		if e.Test != "" {
			s.skipped = append(s.skipped, e.name()+": "+s.reason(e))
		}
	case "fail":
		s.fail(e)
		s.time(e)
	}
	if e.Action == "pass" || e.Action == "skip" {
		delete(s.output, e.name())
	}
}

func (s *summary) pass(e event) {
	if e.Test != "" {
		s.passed++
		s.inside[e.Package]++
		return
	}
	fmt.Fprintf(s.out, "ok    %-34s %7.1fs %5d tests\n", e.Package, e.Elapsed, s.inside[e.Package])
}

// time records the duration of a test including its subtests.
func (s *summary) time(e event) {
	if e.Test != "" && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, timed{e.name(), e.Elapsed})
	}
}

// printSlowest lists the slowest tests. A test that runs in parallel with others also waits for them.
func (s *summary) printSlowest() {
	slices.SortFunc(s.slow, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(s.out, "\nThe slowest tests:")
	for _, t := range s.slow[:min(slowest, len(s.slow))] {
		fmt.Fprintf(s.out, "%7.1fs  %s\n", t.seconds, t.name)
	}
}

// fail counts a package only if it failed outside its tests.
func (s *summary) fail(e event) {
	inside := func(name string) bool { return strings.HasPrefix(name, e.Package+" ") }
	if e.Test != "" || !slices.ContainsFunc(s.failed, inside) {
		s.failed = append(s.failed, e.name())
	}
	fmt.Fprintf(s.out, "FAIL  %s %s %.1fs\n", e.Package, e.Test, e.Elapsed)
	for _, line := range s.output[e.name()] {
		fmt.Fprint(s.out, "      ", line)
	}
}

// reason returns the last message of a skipped test, without its source position.
func (s *summary) reason(e event) string {
	for _, line := range slices.Backward(s.output[e.name()]) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, after, ok := strings.Cut(line, ".go:"); ok {
			_, line, _ = strings.Cut(after, ": ")
		}
		return line
	}
	return "no reason given"
}

// unexpected prints every skip, and returns the skips that the file does not list.
func (s *summary) unexpected(file string) ([]string, error) {
	want := map[string]bool{}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			line, _, _ = strings.Cut(line, "#")
			if f := strings.Fields(line); len(f) == 2 {
				want[f[0]+" "+f[1]] = true
			}
		}
	}
	var bad []string
	for _, skip := range s.skipped {
		name, _, _ := strings.Cut(skip, ":")
		mark := "skip "
		if file != "" && !want[name] {
			mark, bad = "SKIP (not expected here) ", append(bad, skip)
		}
		fmt.Fprintln(s.out, mark+skip)
	}
	return bad, nil
}
