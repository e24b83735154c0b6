package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files in the spool that a killed server left are removed. If it is not known which orders exist, nothing is removed.
func TestSpoolIsSwept(t *testing.T) {
	s, a, _, order := startCopied(t)
	if e := a.sends(order, "Bearer "+a.session, strings.NewReader("state")); e != nil {
		t.Fatal(e)
	}
	for _, name := range []string{order + ".new", "NOBODY", "NOBODY.new"} {
		if err := os.WriteFile(filepath.Join(s.cfg.Dir, "parcels", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.state.SettleCopies(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.kept(); len(got) != 1 || got[0] != order {
		t.Errorf("left: %v", got)
	}
	s.stop()
	if err := s.state.SettleCopies(t.Context()); err == nil {
		t.Error("without a registry it is known what is for nobody")
	}
	if _, err := os.Stat(filepath.Join(s.cfg.Dir, "parcels", order)); errors.Is(err, os.ErrNotExist) {
		t.Error("without a registry everything was removed")
	}
}
