package watch

import (
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// zero is the time that tests begin at.
var zero = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestMain makes times in the output the same everywhere.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
