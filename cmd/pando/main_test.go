package main

import (
	"flag"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain sets the time zone, so that the output does not depend on the machine.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	runMain(m)
}
