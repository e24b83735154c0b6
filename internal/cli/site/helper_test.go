package site

import (
	"bytes"
	"os"
	"testing"
	"time"

	"pando/internal/cmdenv"
)

// zero is the time at which tests begin.
var zero = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestMain sets the time zone, so that the output does not depend on the machine.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// testEnv returns an environment that prints into a buffer.
func testEnv() (*cmdenv.Env, *bytes.Buffer) {
	var b bytes.Buffer
	now := func() time.Time { return zero.Add(time.Minute) }
	return &cmdenv.Env{Out: &b, Err: &b, In: &bytes.Buffer{}, Now: now}, &b
}
