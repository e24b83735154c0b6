package house

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// Longer files, functions or packages probably have more than one purpose. Tests may be longer because of their tables.
const (
	maxFile         = 500
	maxTestFile     = 600
	maxFunction     = 80
	maxTestFunction = 130
	maxPackage      = 5000 // lines, without tests
	maxFiles        = 45   // files of a package, without tests
	maxSamePrefix   = 3    // files of a package whose names begin with one word
)

// longer are the exceptions: "path" or "path:function" with the reason.
var longer = map[string]string{
	"internal/dhcp/answer_test.go:TestStates": "one table of a client's states",
	"internal/build/source/omit.go:omissions": "a table",
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	used := map[string]bool{}
	check := func(key string, have, most int) {
		if have <= most {
			return
		}
		used[key] = true
		if longer[key] == "" {
			t.Errorf("%s has %d lines, at most %d are allowed", key, have, most)
		}
	}
	for _, s := range sources(t) {
		file, function := maxFile, maxFunction
		if s.test {
			file, function = maxTestFile, maxTestFunction
		}
		check(s.path, s.lineCount(), file)
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				check(s.path+":"+f.Name.Name, s.lines(f), function)
			}
		}
	}
	for key := range longer {
		if !used[key] {
			t.Errorf("%s is excepted but not too long any more", key)
		}
	}
}

// A package has one purpose. Several files with one prefix should be a package of their own.
func TestPackagesAreSmall(t *testing.T) {
	lines, files := map[string]int{}, map[string][]string{}
	for _, s := range program(sources(t)) {
		lines[s.dir] += s.lineCount()
		files[s.dir] = append(files[s.dir], strings.TrimSuffix(path.Base(s.path), ".go"))
	}
	for dir, names := range files {
		var wrong []string
		if lines[dir] > maxPackage {
			wrong = append(wrong, "too many lines")
		}
		if len(names) > maxFiles {
			wrong = append(wrong, "too many files")
		}
		for _, p := range prefixes(names) {
			wrong = append(wrong, "several files begin with "+p)
		}
		if len(wrong) > 0 {
			t.Errorf("%s has %d lines in %d files: %s", dir, lines[dir], len(names), strings.Join(wrong, ", "))
		}
	}
}

// prefixes returns what too many file names begin with: a name, its part before a "_", or any five letters.
func prefixes(names []string) []string {
	const letters = 5
	begin := map[string]bool{}
	for _, n := range names {
		stem, _, _ := strings.Cut(n, "_")
		begin[stem] = len(stem) > 2
		if len(n) >= letters {
			begin[n[:letters]] = true
		}
	}
	var found []string
	for prefix, counts := range begin {
		n := 0
		for _, name := range names {
			if strings.HasPrefix(name, prefix) {
				n++
			}
		}
		if counts && n > maxSamePrefix {
			found = append(found, prefix)
		}
	}
	slices.Sort(found)
	return found
}

func TestPrefixes(t *testing.T) {
	for _, tt := range []struct{ names, want string }{
		{"dhcp dhcplease dhcppool dhcp_linux", "dhcp"},
		{"stormcurves stormfeed stormmatrix stormpage", "storm"},
		{"stormcurves stormfeed stormmatrix store", ""},
		{"bootpage bootspage boots rolloutspage", ""},
	} {
		if got := strings.Join(prefixes(strings.Fields(tt.names)), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.names, got, tt.want)
		}
	}
}

// Packages are nested at most three levels deep, so that they are easy to find.
func TestPackagesAreNotDeep(t *testing.T) {
	for _, s := range sources(t) {
		if strings.Count(s.dir, "/") > 2 {
			t.Errorf("%s: internal/STOREY/ROOM is the deepest", s.path)
		}
	}
}
