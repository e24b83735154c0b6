package terminal

import (
	"flag"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// zero is the time at which tests begin.
var zero = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
