package blockd

import (
	"os"
	"path/filepath"
	"testing"

	"pando/internal/blockapi"
)

// TestMain lets the test binary be the block daemon of a tested supervisor.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case blockapi.DaemonName:
		os.Exit(Run())
	case blockapi.SupervisorName:
		os.Exit(1) // a daemon whose test has ended starts another supervisor; the test binary is none
	}
	os.Exit(m.Run())
}
