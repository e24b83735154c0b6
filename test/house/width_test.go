package house

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxWidth = 120 // columns, a tab is 4
	longWord = 80  // width of a string or word that may exceed maxWidth if it stands alone on its line
)

// Lines are short enough for two files side by side.
func TestLinesAreNotWide(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			t.Fatal(err)
		}
		free := unbreakable(text)
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if w := width(strings.TrimSuffix(line, "\n")); w > maxWidth && !free[n] {
				t.Errorf("%s:%d has %d columns, at most %d are allowed", s.path, n, w, maxWidth)
			}
		}
	}
}

// unbreakable returns the numbers of lines that contain a part of a raw string or one long word.
func unbreakable(text []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	free := map[int]bool{}
	for {
		pos, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return free
		case kind == token.STRING && literal[0] == '`':
			first := file.Line(pos)
			for n := range strings.Count(literal, "\n") + 1 {
				free[first+n] = true
			}
		case kind == token.STRING || kind == token.COMMENT:
			for _, word := range strings.Fields(literal) {
				if utf8.RuneCountInString(word) > longWord {
					free[file.Line(pos)] = true
				}
			}
		}
	}
}

func width(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}
