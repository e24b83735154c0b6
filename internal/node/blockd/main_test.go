package blockd

import (
	"os"
	"path/filepath"
	"testing"

	"pando/internal/blockapi"
)

// TestMain lets the test binary be the block daemon of a supervisor under test.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case blockapi.DaemonName:
		os.Exit(Run())
	case blockapi.SupervisorName:
		os.Exit(1) // a daemon whose test has ended wants another supervisor; there is none
	}
	os.Exit(m.Run())
}
