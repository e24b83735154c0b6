package server

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain: a server that was stopped leaves nothing running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
