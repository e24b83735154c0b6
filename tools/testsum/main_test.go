package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const stream = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:12: no tool: install it\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
`

const failure = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestC","Elapsed":1}
{"Action":"fail","Package":"p","Elapsed":1}
`

func TestSummary(t *testing.T) {
	expected := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(expected, []byte("# why\np TestB # because\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, in, skips, says string
		ok                    bool
	}{
		{"skips are told", stream, "", "skip p TestB: no tool: install it", true},
		{"expected skips are fine", stream, expected, "skip p TestB: no tool: install it", true},
		{"other skips fail", stream, empty, "SKIP (not expected here) p TestB", false},
		{"a failure says what it said", stream + failure, "", "c_test.go:3: wrong", false},
		{"counts", stream + failure, "", "1 tests passed, 1 failed, 1 skipped", false},
		{"the slowest tests", stream + failure, "", "The slowest tests:\n    1.0s  p TestC\n    0.0s  p TestA\n", false},
		{"what is not JSON is kept", "go: cannot find main module\n", "", "cannot find main module", true},
	} {
		var out strings.Builder
		ok, err := run(strings.NewReader(c.in), &out, c.skips)
		if err != nil || ok != c.ok || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: ok is %v (%v), output:\n%s", c.name, ok, err, out.String())
		}
	}
}
