package rollout

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"pando/internal/cmdenv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// zero is the time that tests begin at.
var zero = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestMain makes times in the output the same everywhere.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// testEnv prints into a buffer.
func testEnv() (*cmdenv.Env, *bytes.Buffer) {
	var b bytes.Buffer
	now := func() time.Time { return zero.Add(time.Minute) }
	return &cmdenv.Env{Out: &b, Err: &b, In: &bytes.Buffer{}, Now: now}, &b
}
