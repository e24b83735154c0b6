package server

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a stopped server leaves a goroutine running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
