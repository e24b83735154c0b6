package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"pando/internal/store"
	"pando/internal/testkit"
)

// state lists what runs now. It is written before a listed process does anything, so that the next lab can clean up
// after one that was killed.
type state struct {
	Net       string       `json:"net"` // network namespace
	Addr      netip.Prefix `json:"addr"`
	Processes []process    `json:"processes"`
}

type process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"` // part of its command line
}

func (l *Demo) stateFile() string { return filepath.Join(l.Dir, "state.json") }

func (l *Demo) save() error {
	b, err := json.Marshal(l.state)
	if err != nil {
		return err
	}
	return store.WriteFile(l.stateFile(), b, 0o644)
}

// started records a process in the state.
func (l *Demo) started(pid int, name string) error {
	l.state.Processes = append(l.state.Processes, process{pid, name})
	return l.save()
}

// Stop ends everything in the state: machines, then the server, then the network.
func (l *Demo) Stop() error {
	b, err := os.ReadFile(l.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var s state
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return fmt.Errorf("what runs: %w", err)
	}
	for i := len(s.Processes) - 1; i >= 0; i-- {
		err = errors.Join(err, testkit.EndProcess(s.Processes[i].PID, s.Processes[i].Name))
	}
	if s.Net != "" {
		err = errors.Join(err, testkit.OpenNet(s.Net, s.Addr).Close())
	}
	if err != nil {
		return err
	}
	return os.Remove(l.stateFile())
}
