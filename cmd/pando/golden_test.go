package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file in testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (go test -update rewrites it); got\n%s\nwant\n%s", name, got, want)
	}
}

// zero is the time that tests begin at, in UTC so that clocks on the screen are the same everywhere.
var zero = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	runMain(m)
}

// testApp prints into a buffer.
func testApp() (*app, *bytes.Buffer) {
	var b bytes.Buffer
	return &app{out: &b, err: &b, in: &bytes.Buffer{}, clock: func() time.Time { return zero.Add(time.Minute) }}, &b
}
