package status

import (
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// zero is the time at which tests begin.
var zero = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestMain sets the time zone, so that the output does not depend on the machine.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}
