package rundir

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// MarkLine is one line of the marks file.
type MarkLine struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at"` // CLOCK_MONOTONIC
}

// Mark records a named moment on the timeline of this boot. The name "booted" is a stage of Pando; names of other
// stages are refused. The mark is written when Mark returns, and the agent sends it when it can.
func Mark(dir, words string) error {
	name := fleet.MarkName(words)
	if err := fleet.ValidName("mark", name); err != nil {
		return err
	}
	if s := trace.Stage(name); trace.Rank(s) >= 0 && s != trace.Booted {
		return fmt.Errorf("mark %s: that is a stage of Pando's own: take another name", name)
	}
	line, err := json.Marshal(MarkLine{name, Monotonic()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, MarksName), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("mark %s: %w (is this a Pando node, and are you root?)", name, err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("mark %s: %w", name, err)
	}
	// The agent also reads the marks regularly, so it is no error if it does not listen.
	if c, err := net.Dial("unixgram", filepath.Join(dir, AgentSocket)); err == nil {
		_, _ = c.Write([]byte("mark"))
		c.Close()
	}
	return nil
}
